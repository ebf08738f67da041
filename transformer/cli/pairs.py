"""The output of synthetic pairs: it can be resumed like a translation, and leaves out dropped pairs."""

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from transformer.cli.output import PartialOutput
from transformer.cli.places import check_can_be_written
from transformer.config import UsageError
from transformer.data.synthetic import ORIGIN
from transformer.files import atomic_file
from transformer.printing import print_safely, script_command, shell_path, terminal_safe
from transformer.run import Run
from transformer.tools.augment.filters import FILTERS
from transformer.tools.augment.synthesis import Row

DROPPED = "dropped.tsv"


def check_prefix(output: str, checkpoints: list[Path]) -> None:
    """Refuses a PREFIX that is a folder or a link, that is in the folder of a translating run or export, or that cannot
    be written."""
    path = Path(output)
    if path.is_dir() or path.name == "..":
        raise UsageError(f"--output {output} is a folder: give the beginning of the files' names: {path / 'pairs'}")
    if path.is_symlink():  # the files of its target would have another PREFIX
        raise UsageError(f"--output {output} is a link: give the beginning of the files' names")
    for checkpoint in checkpoints:
        run = Run.open(checkpoint)
        is_alone = checkpoint.is_file() and not run.config.exists()  # a model file that is not in a run
        if path.resolve().is_relative_to(run.folder.resolve()) and not is_alone:
            raise UsageError(
                f"--output {output} is in the folder of the model, {shell_path(run.folder)}: give another place"
            )
    check_can_be_written(path, "--output")


def _columns(*cells: str | int) -> bytes:
    return ("\t".join(map(str, cells)) + "\n").encode()


class PairsOutput(PartialOutput):
    """Pairs in the files PREFIX.LANGUAGE, one on each line. Line n of PREFIX.origin has the origin of pair n, and
    PREFIX.dropped.tsv has the lines of the input that became no pair.

    Until all lines are finished, PREFIX.partial has a line of JSON for each line of the input. If the process is killed
    while it writes the files, a resumed one writes them again.
    """

    def __init__(self, prefix: str, text: Path, method: str, made_by: dict[str, str], resume: bool) -> None:
        """Pairs from a text by a search `method`; see `PartialOutput` for `made_by` and `resume`."""
        super().__init__(prefix, made_by, resume)
        self._origin = text.name, method

    def write_rows(self, rows: list[Row]) -> None:
        """Adds the results of some lines of the input."""
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        self.write([row.text for row in rows], "".join(f"{line}\n" for line in lines))

    def paths(self, languages: tuple[str, str]) -> list[Path]:
        """The files of the pairs, of their origins, and of dropped lines."""
        return [self._final.with_name(f"{self._final.name}.{end}") for end in (*languages, ORIGIN, DROPPED)]

    def check_new(self, languages: tuple[str, str]) -> None:
        """Raises UsageError if a file would be overwritten that is not from this output."""
        if self._before is None and (there := [path for path in self.paths(languages) if path.exists()]):
            raise UsageError(f"{shell_path(there[0])} exists already: give another --output PREFIX, or remove it")

    def publish(self, languages: tuple[str, str], model: str) -> Counter[str | None]:
        """Writes the files; returns how many lines became pairs (key None), and how many each filter dropped."""
        text, method, model = map(terminal_safe, (*self._origin, model))
        counts: Counter[str | None] = Counter()
        with ExitStack() as stack, self._partial.open("rb") as rows:
            source, target, origins, dropped = (stack.enter_context(atomic_file(p)) for p in self.paths(languages))
            dropped.write(_columns("line", "filter", *languages))
            for number, line in enumerate(rows, 1):
                row = Row(*json.loads(line))
                counts[row.dropped] += 1
                if row.dropped:
                    texts = (text.replace("\t", " ") for text in (row.text, row.translation))
                    dropped.write(_columns(number, row.dropped, *texts))
                    continue
                source.write(_columns(row.text))
                target.write(_columns(row.translation))
                origins.write(_columns(text, number, languages[1], model, method))
            if not counts[None]:
                self._kept, self._before = 0, None  # there is nothing to resume
                raise ValueError(f"no line became a pair: {', '.join(f'{n:,} {name}' for name, n in counts.items())}")
        return counts

    def _finish(self) -> None:
        """Does nothing, because the files are already written."""


def show_counts(counts: Counter[str | None], prefix: str, languages: tuple[str, str]) -> None:
    """Prints how many lines became pairs, their files, and how many each filter dropped."""
    files = " and ".join(shell_path(Path(f"{prefix}.{language}")) for language in languages)
    print_safely(f"{counts[None]:,} of {counts.total():,} lines became pairs: {files}")
    for name, count in counts.most_common():
        if name is not None:
            print_safely(f"{count:,} dropped: {name} ({FILTERS[name].means})")
    typed = f"data.synthetic=[{shell_path(Path(prefix))}]"
    print_safely(
        "", "Next, with the settings of your training in place of …:", f"  {script_command('train')} … {typed}"
    )
