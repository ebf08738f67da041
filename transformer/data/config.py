"""A corpus: its settings, and its splits in every direction."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from transformer.config import FIXED, OFF_CARD, PATH, Settings, UsageError, setting
from transformer.data.directions import NAME, NAME_RULE, Direction, arrow, direction_name, parse_direction
from transformer.data.download import fetch_corpus
from transformer.data.languages import code_meant, name_of
from transformer.data.text_files import (
    Pair,
    column_names,
    digest_of,
    find_columns,
    find_files,
    has_files,
    is_csv,
    read_pairs,
    table_rows,
)
from transformer.files import expanded, sha256

SPLITS = ("train", "validation", "test")  # every corpus has these
# The splits, and the other names in test.json and evaluation.json.
RESERVED_NAMES = (
    *SPLITS,
    *("synthetic", "versions", "corpus", "revision", "seconds", "cost"),
    *("sentences", "checkpoint", "sha256", "searches", "texts", "zero_shot"),
)
MAX_DIRECTIONS = 500  # a checkpoint holds their names


def split_name(split: str, direction: Direction) -> str:
    """The name of a split in a direction that is not the corpus' first."""
    return f"{split}.{direction_name(direction)}"


@dataclass(frozen=True)
class DataSettings(Settings):
    """Where a corpus is and how it is batched."""

    name: str = "files"
    """the name of the corpus in results and on the model card"""
    source_language: Annotated[str, FIXED] = "de"
    """swap source and target for the other direction; the default is the first of `directions`, if set"""
    target_language: Annotated[str, FIXED] = "en"
    """a code, as de, zh or zh_Hans"""
    directory: Annotated[str, PATH] | None = None
    """the folder of the files, for presets whose train, validation and test refer to it"""
    pairs: Annotated[str, PATH] | None = None
    """the whole corpus: one file, or a PREFIX; validation and test are taken out of it"""
    split: Annotated[list[Annotated[float, "> 0", "< 0.5"]], OFF_CARD] = setting([0.02, 0.02])
    """the shares of data.pairs for validation and test"""
    train: Annotated[str, PATH] | None = None
    """PREFIX: the files PREFIX.de and PREFIX.en, or one .tsv, .txt or .csv; each also .gz. data.train alone is the same
    as data.pairs"""
    validation: Annotated[str, PATH] | None = None
    """as data.train; it chooses the best checkpoint"""
    test: Annotated[str, PATH] | None = None
    """as data.train; the run is scored on it at its end"""
    extra_tests: dict[str, Annotated[str, PATH]] = setting({})
    """more test sets, scored after the test: +data.extra_tests.news=PREFIX adds one"""
    columns: Annotated[list[Annotated[int, ">= 1", "<= 1000"]], OFF_CARD] | None = None
    """the columns of source and target in a .tsv, .txt or .csv, counted from 1: [2,1]. null: the columns with the names
    of the two languages in the first line, or else the only two"""
    url: Annotated[str, OFF_CARD] | None = None
    """where missing files are downloaded from"""
    sha256: Annotated[dict[str, str], OFF_CARD] = setting({})
    """the files to download, each with its sha256"""
    max_length: Annotated[int, ">= 1", "<= 1000000", FIXED] = 100
    """longer pairs (tokens on one side) are left out of training, counted and listed"""
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"] = 4096
    """sentences × longest side of a batch; null: chosen by the number of pairs"""
    length_buckets: Annotated[bool, OFF_CARD] | None = None
    """true: pad training batches to 8, 10, 12, 14, 16, 20, 24, … tokens; null: only with bf16 on a CPU, because each
    new shape of a batch takes time there (docs/experiments.md)"""
    workers: Annotated[int, ">= 0", "<= 128", OFF_CARD] = 0
    """processes that prepare batches in advance; 0: the main process does it"""
    directions: Annotated[list[str], FIXED] = setting([])
    """several directions in one model: [de-en,en-de,fr-en]; a tag in the source chooses one (docs/languages.md)"""
    direction_temperature: Annotated[float, ">= 1", "<= 1000", FIXED] = 1.0
    """above 1: directions with few pairs come more often, in proportion to pairs^(1/temperature)"""
    fold: list[Annotated[int, ">= 1", "<= 1000"]] | None = None
    """[i,n]: train without part i of n of the training pairs; augment.py --fold translates it"""
    synthetic: list[Annotated[str, PATH]] = setting([])
    """[PREFIX,…] of further training pairs with one side written by a model (docs/augment.md)"""
    synthetic_ratio: Annotated[float, "> 0", "<= 1000", FIXED] | None = None
    """synthetic pairs per real pair, different ones in each epoch; null: all of them in every epoch"""
    synthetic_tag: Annotated[bool, FIXED] = False
    """true: their sources begin with the tag <bt>"""
    placeholders: Annotated[float, ">= 0", "<= 1", FIXED] = 0.0
    """share of the training pairs that come a second time with words replaced by placeholders: translations then keep
    numbers, addresses, tags, and the terms of a glossary (docs/control.md)"""
    robust: Annotated[float, ">= 0", "<= 1", FIXED] = 0.0
    """share of the training pairs that come a second time in the way that people type: in small letters, without a full
    stop, a single word (docs/control.md)"""
    remove_held_out: Annotated[bool, FIXED] = False
    """true: a training pair is left out if one of its sides is also in validation or a test (case, punctuation and
    numbers do not count)"""
    cache: Annotated[str, PATH] = ".cache"
    """encoded splits and tokenizers"""
    license: Annotated[str, OFF_CARD] | None = None
    """the license of the corpus, for the model card: data.license=CC-BY-4.0"""
    home: Annotated[str, OFF_CARD] | None = None
    """the home page of the corpus, for the model card: data.home=https://…"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if foreign := [name for name in self.sha256 if Path(name).name != name]:
            raise ValueError(f"data.sha256 names {foreign[0]}: only plain file names are fetched")
        for key in ("source_language", "target_language"):
            if not NAME.fullmatch(language := getattr(self, key)):
                raise ValueError(f"data.{key}={language} must be {NAME_RULE}: de, zh_Hans, …")
            if code := code_meant(language):
                raise ValueError(f"data.{key}={language} is not the code of a language: write {code} ({name_of(code)})")
        for name in self.extra_tests:
            if name in RESERVED_NAMES:
                raise ValueError(f"data.extra_tests.{name}: this name is taken in the results; choose another")
            if not NAME.fullmatch(name):
                raise ValueError(f"data.extra_tests: the name {name} must be {NAME_RULE}")
        if self.source_language == self.target_language:
            raise ValueError(f"data.source_language and data.target_language are both {self.source_language}")
        self._check_directions()
        if len(self.split) != 2:
            raise ValueError(f"data.split={self.split} must be two numbers: the shares of validation and test")
        if self.fold and (len(self.fold) != 2 or self.fold[0] > self.fold[1] or self.fold[1] < 2):
            raise ValueError(f"data.fold={self.fold} must be the part to leave out and the number of parts: [1,5]")
        if self.columns and (len(self.columns) != 2 or len(set(self.columns)) != 2):
            raise ValueError(f"data.columns={self.columns} must be two columns: the source's and the target's")
        if not self.synthetic and (self.synthetic_tag or self.synthetic_ratio):
            raise ValueError(
                "data.synthetic_tag and data.synthetic_ratio are for data.synthetic=[PREFIX], which is not set"
            )
        given = [f"data.{split}" for split in SPLITS if self.splits[split]]
        missing = [f"data.{split}" for split in SPLITS if not self.splits[split]]
        if self.pairs and given:
            chosen = "" if self.name == "files" else f", or choose data=files (data={self.name} names them)"
            raise ValueError(
                f"data.pairs is cut into train, validation and test: leave out {' and '.join(given)}{chosen}"
            )
        if missing and not self.whole:
            raise ValueError(
                f"not set: {', '.join(missing)}; give data.train=my/train data.validation=my/valid data.test=my/test, "
                "or one file, data.pairs=my/pairs.tsv, which is cut into the splits"
            )

    def _check_directions(self) -> None:
        directions, setting = self.all_directions, f"data.directions=[{','.join(self.directions)}]"
        if len(directions) > MAX_DIRECTIONS:
            raise ValueError(f"data.directions names {len(directions)}: {MAX_DIRECTIONS} are possible")
        if len(set(directions)) != len(directions):
            raise ValueError(f"{setting} names a direction twice")
        if self.languages not in directions:
            raise ValueError(
                f"{setting} does not have {direction_name(self.languages)}, the direction of data.source_language and "
                "data.target_language: give the two languages of one of the directions"
            )
        if self.direction_temperature != 1 and len(directions) == 1:
            raise ValueError("data.direction_temperature is for several data.directions, here is one")
        if len(self.all_languages) > 2 and self.columns:
            raise ValueError(
                f"data.columns is for two languages, {setting} has {len(self.all_languages)}: name the columns in the "
                "first line of the table"
            )
        if clash := sorted(self.extra_tests.keys() & self._taken_names()):
            raise ValueError(f"data.extra_tests.{clash[0]}: this name is taken in the results; choose another")

    @property
    def languages(self) -> Direction:
        """The first direction, or the only one."""
        return self.source_language, self.target_language

    @property
    def all_directions(self) -> list[Direction]:
        """All directions that are trained, validated and tested, `languages` first."""
        directions = [parse_direction(text, "data.directions") for text in self.directions]
        return sorted(directions, key=lambda direction: direction != self.languages) or [self.languages]

    @property
    def all_languages(self) -> list[str]:
        """The languages of all directions, in their order."""
        return list(dict.fromkeys(language for direction in self.all_directions for language in direction))

    def in_direction(self, direction: Direction) -> "DataSettings":
        """The corpus in one direction, learned or not, with the same files.

        Raises ValueError for languages that the corpus does not have.
        """
        if not set(direction) <= set(self.all_languages):
            raise ValueError(
                f"the corpus {self.name} is in {', '.join(self.all_languages)}, not for {arrow(direction)}"
            )
        if direction == self.languages and not self.directions:
            return self
        columns = self.columns
        if direction == self.languages[::-1] and len(self.all_languages) == 2:
            columns = (columns or [1, 2])[::-1]  # [1,2]: for a table that does not name its columns
        synthetic = [prefix for prefix in self.synthetic if not self.directions or has_files(prefix, *direction)]
        return replace(
            self,
            source_language=direction[0],
            target_language=direction[1],
            columns=columns,
            directions=[],
            direction_temperature=1.0,
            synthetic=synthetic,
            synthetic_ratio=self.synthetic_ratio if synthetic else None,
            synthetic_tag=self.synthetic_tag and bool(synthetic),
        )

    @property
    def all_splits(self) -> dict[str, tuple["DataSettings", str]]:
        """Every split in every direction, by name: the corpus of that direction, and the split's name in it. `test` is
        for the first direction, `test.fr-en` for another."""
        return {
            name: (self.in_direction(direction), split)
            for split in self.splits
            for name, direction in self._named(split).items()
        }

    @property
    def by_direction(self) -> list["DataSettings"]:
        """The corpus of each direction."""
        return [self.in_direction(direction) for direction in self.all_directions]

    @property
    def with_own_pairs(self) -> list["DataSettings"]:
        """The corpora of the directions that have training pairs of their own. Mostly en-de has the pairs of de-en,
        reversed, and is left out."""
        kept: dict[tuple[frozenset[str], frozenset[Path]], DataSettings] = {}
        for corpus in self.by_direction:
            kept.setdefault((frozenset(corpus.languages), frozenset(corpus.files("train"))), corpus)
        return list(kept.values())

    def _named(self, split: str) -> dict[str, Direction]:
        first, *others = self.all_directions
        return {split: first} | {split_name(split, direction): direction for direction in others}

    def _taken_names(self) -> set[str]:
        """The names of splits in results, also with the direction for the first one: test, test.de-en, …; and the names
        of the extra tests in each direction."""
        splits = (*SPLITS, "synthetic")
        with_direction = (*splits, *self.extra_tests)
        return {*splits, *(split_name(one, direction) for one in with_direction for direction in self.all_directions)}

    @property
    def whole(self) -> str | None:
        """The corpus in one piece, which `splitting` cuts into splits; None if validation or test has files."""
        return self.pairs or (self.train if not (self.validation or self.test) else None)

    @property
    def splits(self) -> dict[str, str | None]:
        """The name of every split and the beginning of its files' paths; None if `splitting` has yet to make it."""
        return {"train": self.train, "validation": self.validation, "test": self.test} | self.extra_tests

    def find_split(self, name: str) -> tuple["DataSettings", str]:
        """The corpus of one direction and its split for a name of `all_splits`, or for test.de-en, the test of the
        first direction; else UsageError."""
        of_first = {split_name(split, self.all_directions[0]): split for split in self.splits}
        if (found := self.all_splits.get(of_first.get(name, name))) is None:
            raise UsageError(f"the corpus {self.name} has no split {name}; it has {', '.join(self.all_splits)}")
        return found

    def files(self, name: str) -> list[Path]:
        """The files of a split: one table, or source and target. FileNotFoundError names the missing files."""
        corpus, split = self.find_split(name)
        prefix = corpus.splits[split]
        assert prefix is not None
        assert not (self.whole and split in SPLITS), "splitting.with_splits comes first"
        return find_files(prefix, *corpus.languages)

    def read(self, name: str) -> Iterator[Pair]:
        corpus, _ = self.find_split(name)
        return read_pairs(self.files(name), *corpus.languages, corpus.columns)

    def fetch(self) -> None:
        """Downloads or makes missing files. Raises OSError if that fails, and ValueError for a wrong sha256."""
        for source, target in self.all_directions:
            fetch_corpus(self.url, expanded(self.directory or "."), self.sha256, (source, target))

    def check_files(self) -> None:
        """Raises FileNotFoundError for a missing file that `fetch` will not get."""
        self.check_synthetic_files()
        if self.url is not None:
            return
        if cut := self.whole or (self.train if self.fold else None):
            self.file_of_each_language(cut)
        for name, (_, split) in self.all_splits.items():
            if not (self.whole and split in SPLITS):
                self.files(name)

    def check_synthetic_files(self) -> None:
        """Raises FileNotFoundError for a PREFIX that has files for none of the directions."""
        for prefix in self.synthetic:
            if not any(has_files(prefix, *direction) for direction in self.all_directions):
                files = " and ".join(f"{prefix}.{language}" for language in self.languages)
                raise FileNotFoundError(f"data.synthetic={prefix}: it needs {files}, as augment.py writes them")

    def file_of_each_language(self, prefix: str) -> dict[str, Path]:
        """The file of each of `all_languages`, in which line n is the same sentence; or one table for all. Raises
        ValueError if a direction has files of its own, and for a table of more than two languages without names."""
        files: dict[str, Path] = {}
        for corpus in self.by_direction:
            sides = find_files(prefix, *corpus.languages)
            for language, file in zip(corpus.languages, (sides * 2)[:2], strict=True):
                if files.setdefault(language, file) != file:
                    raise ValueError(
                        f"{file} and {files[language]} are both in {language}: only a corpus with the same lines in "
                        "all languages can be cut; give data.validation= and data.test=, and no data.fold="
                    )
        if len(files) > 2 and len(set(files.values())) == 1:
            table = files[self.source_language]
            _, names = next(table_rows(table), (1, []))
            if missing := files.keys() - set(column_names(names, self.all_languages)):
                raise ValueError(
                    f"{table} must name its columns in its first line: {', '.join(self.all_languages)}; there is no "
                    f"{' and no '.join(sorted(missing))}"
                )
        return files

    def digest(self, name: str) -> str:
        """sha256 over the bytes of a split's files and, if it is one table, the columns that are read."""
        (corpus, _), files = self.find_split(name), self.files(name)
        if len(files) == 2:
            return digest_of(files)
        table = [sha256(files[0]), is_csv(files[0]), corpus.columns_of(files[0])]
        return hashlib.sha256(json.dumps(table).encode()).hexdigest()

    def columns_of(self, table: Path) -> tuple[int, int]:
        """The columns of source and target in a table, counted from 1, by the settings or its first line."""
        _, first_line = next(table_rows(table), (1, []))
        return find_columns(first_line, self.languages, self.columns)[:2]
