"""Parallel text: where its files are, and reading them with checks, one pair at a time."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from transformer.data.download import fetch_corpus

Pair = tuple[str, str]
MAX_LINE_BYTES = 1 << 20  # a small .gz can hold a line larger than memory
# Languages and the names of splits, which are parts of file names.
NAME, NAMED = re.compile(r"\w[\w.-]{,63}"), "at most 64 letters, digits and .-_"
# What stands beside the splits in test.json and evaluation.json, and the splits that every corpus has.
TAKEN = (
    *("train", "validation", "test", "versions", "corpus", "revision", "seconds", "cost"),
    *("sentences", "checkpoint", "sha256", "search", "searches"),
)


@dataclass(frozen=True)
class DataSettings:
    """Where a corpus is and how it is batched; configs/data/files.yaml explains every setting."""

    name: str
    source_language: str
    target_language: str
    directory: str | None
    train: str
    validation: str
    test: str
    extra_tests: dict[str, str]
    url: str | None
    sha256: dict[str, str]
    max_length: Annotated[int, ">= 1", "<= 1000000"]
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"]
    workers: Annotated[int, ">= 0", "<= 128"]
    both_directions: bool
    cache: str
    license: str | None
    home: str | None

    def __post_init__(self) -> None:
        if foreign := [name for name in self.sha256 if Path(name).name != name]:
            raise ValueError(f"data.sha256 names {foreign[0]}: only plain file names are fetched")
        for key in ("source_language", "target_language"):
            if not NAME.fullmatch(language := getattr(self, key)):
                raise ValueError(f"data.{key}={language} must be {NAMED}: de, zh_Hans, …")
        for name in self.extra_tests:
            if name in TAKEN:
                raise ValueError(f"data.extra_tests.{name}: this name is taken in the results; choose another")
            if not NAME.fullmatch(name):
                raise ValueError(f"data.extra_tests: the name {name} must be {NAMED}")
        if self.source_language == self.target_language:
            raise ValueError(f"data.source_language and data.target_language are both {self.source_language}")

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    @property
    def splits(self) -> dict[str, str]:
        """Every split's name and the path that its files begin with."""
        return {"train": self.train, "validation": self.validation, "test": self.test} | self.extra_tests

    def files(self, split: str) -> list[Path]:
        """The files of a split: one .tsv, or source and target; FileNotFoundError says what was looked for."""
        if split not in self.splits:
            raise ValueError(f"the corpus {self.name} has no split {split}; it has {', '.join(self.splits)}")
        return find_files(self.splits[split], *self.languages)

    def pairs(self, split: str) -> Iterator[Pair]:
        return read_pairs(self.files(split), *self.languages)

    def fetch(self) -> None:
        """Brings missing files. Raises OSError when that fails and ValueError for bytes that were not published."""
        fetch_corpus(self.url, Path(self.directory or ".").expanduser(), self.sha256, self.languages)

    def digest(self, split: str) -> str:
        """sha256 over the bytes of a split's files."""
        digest = hashlib.sha256()
        for path in self.files(split):
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
            digest.update(b"\0")
        return digest.hexdigest()


def find_files(prefix: str, source_language: str, target_language: str) -> list[Path]:
    """PREFIX itself if it is a .tsv, else PREFIX.<language> for both languages, or the same with .gz."""
    base, sides = Path(prefix).expanduser(), (source_language, target_language)
    candidates = [[base.with_name(f"{base.name}.{side}{ending}") for ending in ("", ".gz")] for side in sides]
    if base.name.endswith((".tsv", ".tsv.gz")):
        candidates = [[base]]
    for choice in candidates:
        if not any(path.is_file() for path in choice):
            meaning = f"PREFIX means PREFIX.{source_language} and PREFIX.{target_language}, or is one .tsv"
            raise FileNotFoundError(f"no corpus file {' or '.join(map(str, choice))}: put it there; {meaning}")
    return [next(path for path in choice if path.is_file()) for choice in candidates]


def read_pairs(files: list[Path], source_language: str, target_language: str) -> Iterator[Pair]:
    """Yields the sentence pairs, edge spaces removed. Only \\n and \\r\\n end a line.

    A .tsv holds source and target in this order, or says otherwise in a first line that names the two languages.
    Raises ValueError that names the file and line: not UTF-8, cut short, no tab, empty, counts that differ.
    """
    pairs = _tsv_pairs(files[0], source_language, target_language) if len(files) == 1 else _aligned_pairs(*files)
    pair: Pair | None = None
    for pair in pairs:
        yield pair
    if pair is None:
        raise ValueError(f"{files[0]} is empty")


def _aligned_pairs(source_path: Path, target_path: Path) -> Iterator[Pair]:
    sources, targets = read_lines(source_path), read_lines(target_path)
    for count, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            rest = 1 + sum(1 for _ in (targets if source is None else sources))
            source_count, target_count = (count, count + rest) if source is None else (count + rest, count)
            raise ValueError(
                f"{source_path} has {source_count:,} lines but {target_path} has {target_count:,}: "
                "line n of one must translate line n of the other"
            )
        yield source, target


def _tsv_pairs(path: Path, source_language: str, target_language: str) -> Iterator[Pair]:
    swapped = False
    for number, line in enumerate(read_lines(path, "\r\n"), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2:
            raise ValueError(f"{path} line {number}: a pair needs exactly one tab, here are {len(cells) - 1}")
        if number == 1 and set(cells) == {source_language, target_language}:
            swapped = cells[0] == target_language
            continue
        yield (cells[1], cells[0]) if swapped else (cells[0], cells[1])


def read_lines(path: Path, edges: str | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file (.gz too); a byte order mark and edge spaces (or what `edges` names) are removed."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            # A binary file ends lines at \n only: U+2028 and \x85 belong to the sentence.
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
                if len(line) > MAX_LINE_BYTES:
                    raise ValueError(f"{path} line {number} has more than {MAX_LINE_BYTES:,} bytes: no sentence has")
                yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode("utf-8").strip(edges)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} line {number} is not UTF-8 (byte {error.start + 1} of the line)") from error
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read after line {number}: {error}") from error
