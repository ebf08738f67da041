"""A cleaned copy of a corpus: train without faulty pairs, the other splits, and a file with the dropped pairs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from transformer.data.words import Line
from transformer.files import atomic_folder
from transformer.tools.doctor.check_corpus import Dropped


class CleanCopy:
    """The files SPLIT.LANGUAGE and dropped.tsv of a folder, open for writing."""

    def __init__(self, folder: Path, languages: tuple[str, str], splits: list[str], stack: ExitStack) -> None:
        self._files = {
            split: [
                stack.enter_context((folder / f"{split}.{language}").open("w", encoding="utf-8", newline="\n"))
                for language in languages
            ]
            for split in splits
        }
        self._dropped = stack.enter_context((folder / "dropped.tsv").open("w", encoding="utf-8", newline="\n"))
        self._dropped.write("line\treason\tsource\ttarget\n")

    def write(self, split: str, line: Line) -> None:
        """Writes a pair as training reads it: without edge spaces and byte order marks."""
        for file, text in zip(self._files[split], line.text, strict=True):
            file.write(f"{text}\n")

    def drop(self, dropped: Dropped) -> None:
        texts = (text.replace("\t", " ") for text in dropped.line.text)
        reason = ", ".join(dropped.reasons)
        if dropped.leak:
            reason += f" ({dropped.leak.split} {dropped.leak.number})"
        self._dropped.write("\t".join([str(dropped.line.number), reason, *texts]) + "\n")


def check_new(folder: Path) -> None:
    """Raises ValueError for a folder that exists: nothing is overwritten."""
    if folder.exists():
        raise ValueError(f"--fix {folder} exists already: give a new folder")


@contextmanager
def clean_copy(folder: Path, languages: tuple[str, str], splits: list[str]) -> Iterator[CleanCopy]:
    """A copy to write. It becomes `folder` at the end, whole or not at all."""
    check_new(folder)
    with atomic_folder(folder) as work, ExitStack() as stack:
        yield CleanCopy(work, languages, splits, stack)
