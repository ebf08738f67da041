"""Takes validation and test out of a corpus in one piece, and leaves a fold out of train, by a hash of the sentences.

The rule, in four parts:

1. Two sentences count as equal if they have the same letters: after Unicode's NFKC, in lower case, without punctuation,
   symbols and spaces, and with every number as 0.
2. Pairs with equal sources or equal targets are in one group, also if they are connected through other pairs: a group
   is a connected component. With more than two languages all sentences of a line are connected in this way.
3. A hash decides the split of a group. It depends only on the group's sentences, so neither the order of the lines nor
   the direction of translation matters.
4. Pairs without a letter or a digit on a side and groups of more than `MAX_GROUP` pairs (the many wordings of "Hello!")
   stay in train.

So no sentence of the test, on either side, is in train; and a pair stays in its split when lines are added to the
corpus, unless these connect its group with another one or make it too large.
"""

import hashlib
import logging
import math
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer.config import from_dict
from transformer.data.clean import normal_form
from transformer.data.config import SPLITS, DataSettings
from transformer.data.text_files import is_csv, read_lines, read_pairs
from transformer.files import cache_key, cached_folder, expanded, sha256
from transformer.printing import shortened
from transformer.run import Run

log = logging.getLogger(__name__)
Line = tuple[str, ...]  # the same sentence in each language
TRAIN, VALIDATION, TEST = range(3)
# Part of the name of a folder with splits: raise it if the rule changes, or if other lines of a table become pairs.
RULE = 3
MAX_GROUP = 20
LEFT_OUT = "left_out"  # the name of the files of a fold


class _Kept(dict[int, int | None]):
    """For str.translate: letters, numbers and marks (the vowels of Hindi and Thai) stay, others are removed (None)."""

    def __missing__(self, character: int) -> int | None:
        self[character] = character if unicodedata.category(chr(character))[0] in "LMN" else None
        return self[character]


KEPT = _Kept()
NUMBER = re.compile(r"\d+")


def comparable(text: str) -> str:
    """The part of a sentence that counts when two sentences are compared."""
    folded = text.lower() if text.isascii() else normal_form("NFKC", text).casefold()
    return NUMBER.sub("0", folded.translate(KEPT))


def hash64(*texts: str) -> int:
    """8 bytes of a hash, the same in every process."""
    return int.from_bytes(hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest(), "big")


def _hash(language: str, text: str) -> int:
    """The hash of the comparable part of a sentence; 0 if this is empty."""
    return hash64(language, kept) if (kept := comparable(text)) else 0


def _smallest_of_group(sources: NDArray[np.int64], targets: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """For each of the `nodes` (sentences) the smallest node of its connected component; a pair is an edge.

    In each round both ends of an edge, and the nodes that they point to, point to the smaller of the two.
    """
    smallest = np.arange(nodes)
    while True:
        ends = smallest[sources], smallest[targets]
        if np.array_equal(*ends):
            return smallest
        for end in ends:
            np.minimum.at(smallest, end, np.minimum(*ends))
        while not np.array_equal(smallest, shorter := smallest[smallest]):
            smallest = shorter


def _uniform(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers in [0, 1) from hashes, by the finalizer of SplitMix64 (Steele et al. 2014).

    The hashes are mixed again because the smallest hash of a large group tends to be small.
    """
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64


def _grouped(
    lines: Iterable[Line], languages: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.uint64], NDArray[np.int64]]:
    """Which lines can be compared; and for each of these, the smallest hash and the number of lines of its group.

    It takes about 80 bytes of memory per pair.
    """
    hashes = array("Q")
    for line in lines:
        hashes.extend(map(_hash, languages, line))
    nodes, numbers = np.unique(np.frombuffer(hashes, np.uint64), return_inverse=True)
    # NumPy 2.0 gives the numbers the shape of the hashes, other versions a flat array.
    sentences = numbers.reshape(-1, len(languages))
    comparable_lines: NDArray[np.bool_] = np.all(nodes[sentences] > 0, axis=1)
    first, *others = sentences[comparable_lines].T
    group = _smallest_of_group(np.tile(first, len(others)), np.concatenate(others), len(nodes))[first]
    return comparable_lines, nodes[group], np.bincount(group, minlength=len(nodes))[group]


def assign_splits(lines: Iterable[Line], languages: Sequence[str], shares: tuple[float, float]) -> NDArray[np.int64]:
    """The split of each line, as an index into SPLITS; `shares` are those of validation and test."""
    comparable_lines, smallest, sizes = _grouped(lines, languages)
    validation_share, test_share = shares
    chance = _uniform(smallest)
    split = np.where(chance < test_share, TEST, np.where(chance >= 1 - validation_share, VALIDATION, TRAIN))
    splits = np.full(len(comparable_lines), TRAIN, dtype=np.int64)
    splits[comparable_lines] = np.where(sizes > MAX_GROUP, TRAIN, split)
    return splits


def is_in_fold(lines: Iterable[Line], languages: Sequence[str], fold: int, folds: int) -> NDArray[np.int64]:
    """1 for the lines of a fold (counted from 1), else 0. All lines of a group are in one fold; lines without a letter
    or a digit on a side are in none. The fold of a group does not depend on its split."""
    comparable_lines, smallest, _ = _grouped(lines, languages)
    inside = np.zeros(len(comparable_lines), np.int64)
    inside[comparable_lines] = (_uniform(~smallest) * folds).astype(np.int64) == fold - 1
    return inside


def _write_parts(
    folder: Path,
    read: Callable[[], Iterable[Line]],
    languages: Sequence[str],
    names: tuple[str, ...],
    parts: NDArray[np.int64],
) -> dict[str, int]:
    """Writes files NAME.LANGUAGE; `parts` has, for each line, the index of its name."""
    with ExitStack() as stack:
        files = [
            [
                stack.enter_context((folder / f"{name}.{language}").open("w", encoding="utf-8", newline="\n"))
                for language in languages
            ]
            for name in names
        ]
        for line, part in zip(read(), parts.tolist(), strict=True):
            for file, text in zip(files[part], line, strict=True):
                file.write(f"{text}\n")
    return dict(zip(names, np.bincount(parts, minlength=len(names)).tolist(), strict=True))


def write_splits(
    folder: Path,
    read: Callable[[], Iterable[Line]],
    languages: Sequence[str],
    shares: tuple[float, float],
) -> dict[str, int]:
    """Writes files SPLIT.LANGUAGE into `folder`, with the lines in their order, and returns the size of each split.

    `read` reads the lines again at each call: they need not fit into memory.
    """
    return _write_parts(folder, read, languages, SPLITS, assign_splits(read(), languages, shares))


def write_fold(
    folder: Path,
    read: Callable[[], Iterable[Line]],
    languages: Sequence[str],
    fold: int,
    folds: int,
) -> dict[str, int]:
    """Writes the lines of a fold as LEFT_OUT.LANGUAGE, the others as train.LANGUAGE, and returns their numbers."""
    return _write_parts(folder, read, languages, ("train", LEFT_OUT), is_in_fold(read(), languages, fold, folds))


def _lines(corpus: DataSettings, prefix: str) -> Iterator[Line]:
    """The sentences of each line, in all languages of the corpus."""
    first, *others = corpus.all_languages
    files = corpus.file_of_each_language(prefix)
    # A table is one file.
    both = {other: list(dict.fromkeys((files[first], files[other]))) for other in others}
    pairs = (read_pairs(both[other], first, other, corpus.columns) for other in others)
    for of_line in zip(*pairs, strict=True):
        yield of_line[0][0], *(pair[1] for pair in of_line)


def _cut(corpus: DataSettings, whole: str) -> Path:
    # Refuses a table without the names of its columns, even if the cache has its splits.
    next(_lines(corpus, whole), None)

    def make(folder: Path) -> None:
        validation, test = corpus.split
        counts = write_splits(folder, lambda: _lines(corpus, whole), corpus.all_languages, (validation, test))
        sizes = ", ".join(f"{split} {count:,}" for split, count in counts.items())
        if not all(counts.values()):
            few = math.ceil(500 / sum(counts.values())) / 100  # some five pairs
            remedy = (
                "it has too few pairs, or they share their sentences (all numbers count as equal): give data.train=, "
                "data.validation=, data.test="
            )
            for share in (min(0.3, max(2 * max(corpus.split), few)), 0.3):
                larger = assign_splits(_lines(corpus, whole), corpus.all_languages, (share, share))
                if len(np.unique(larger)) == len(SPLITS):
                    remedy = f"choose other shares, for example data.split=[{share},{share}]"
                    break
            raise ValueError(f"{whole} is too small for data.split={corpus.split} ({sizes}): {remedy}")
        log.info("%s was split: %s (data.split=%s)", whole, sizes, corpus.split)

    # The key is the same for both directions: a corpus has one test set.
    files, content = corpus.file_of_each_language(whole), set()
    for one in corpus.by_direction:
        source, target = (files[language] for language in one.languages)
        columns = one.columns_of(source) if source == target else (1, 1)
        for language, column, path in zip(one.languages, columns, (source, target), strict=True):
            content.add((language, column, is_csv(path), sha256(path)))
    key = cache_key([RULE, sorted(content), corpus.split])
    return cached_folder(expanded(corpus.cache) / f"splits-{key}", make)


def _without_fold(corpus: DataSettings, fold: int, folds: int) -> Path:
    def make(folder: Path) -> None:
        counts = write_fold(folder, lambda: _lines(corpus, str(corpus.train)), corpus.all_languages, fold, folds)
        if not all(counts.values()):
            raise ValueError(f"{corpus.train} is too small for data.fold={[fold, folds]}: a part has no pairs")

    digests = [corpus.digest(name) for name, (_, split) in corpus.all_splits.items() if split == "train"]
    key = cache_key([RULE, digests, corpus.all_languages, fold, folds])
    return cached_folder(expanded(corpus.cache) / f"fold-{key}", make)


def _without_held_out(corpus: DataSettings) -> Path:
    def make(folder: Path) -> None:
        others = [(one, split) for one, split in corpus.all_splits.values() if split != "train"]
        held_out = {comparable(text) for one, split in others for pair in one.read(split) for text in pair} - {""}
        lines = _lines(corpus, str(corpus.train))
        is_held_out = np.array([any(comparable(text) in held_out for text in line) for line in lines], np.int64)
        names, read = ("train", LEFT_OUT), lambda: _lines(corpus, str(corpus.train))
        if not _write_parts(folder, read, corpus.all_languages, names, is_held_out)["train"]:
            raise ValueError(f"every pair of {corpus.train} has a sentence of validation or a test: no pair is left")

    digests = [corpus.digest(name) for name in corpus.all_splits]
    return cached_folder(expanded(corpus.cache) / f"clean-{cache_key([RULE, digests, corpus.all_languages])}", make)


def with_splits(corpus: DataSettings) -> DataSettings:
    """The settings with files for every split: a corpus in one piece is cut; `fold` and, with `remove_held_out`,
    held-out sentences are left out of train; nothing is done if the cache has the result.

    The splits stay in a folder of the cache. Its name depends on the corpus' bytes and the settings of the cut.
    """
    settings = corpus
    if corpus.whole:
        folder = _cut(corpus, corpus.whole)
        train, validation, test = (str(folder / split) for split in SPLITS)
        settings = replace(corpus, pairs=None, train=train, validation=validation, test=test)
    if settings.fold:
        settings = replace(settings, train=str(_without_fold(settings, *settings.fold) / "train"), fold=None)
    if settings.remove_held_out:
        settings = replace(settings, train=str(_without_held_out(settings) / "train"), remove_held_out=False)
    return settings


def corpus_of(run: Run, cache: str | None = None) -> DataSettings:
    """The corpus in the settings of a run; with a `cache`, also its splits: a corpus in one piece is cut again, into
    our own `cache`, because the settings may be untrusted and must not choose a folder to write. For the same reason
    nothing is downloaded. Raises FileNotFoundError or ValueError if the run has no corpus."""
    corpus = from_dict(DataSettings, run.setting("data"), "data")
    return corpus if cache is None else with_splits(replace(corpus, cache=cache))


def notes_of_cut(corpus: DataSettings, given: DataSettings) -> list[str]:
    """Lines about the splits that `with_splits` has made from the settings `given`: their folder, their source, and its
    first pair, which shows swapped columns or a heading. None if the corpus came with splits."""
    notes = []
    if given.whole is not None:
        folder = Path(str(corpus.test)).parent
        first = " | ".join(map(shortened, next(_lines(given, given.whole))))
        notes += [
            f"validation and test were taken from {given.whole} (data.split={corpus.split}): {folder} holds all splits",
            f"its first pair: {first}",
        ]
    if given.fold:
        notes.append(f"part {given.fold[0]} of {given.fold[1]} of the training pairs is left out (data.fold)")
    if given.remove_held_out:
        left_out = Path(str(corpus.train)).with_name(f"{LEFT_OUT}.{corpus.source_language}")
        pairs = sum(1 for _ in read_lines(left_out))
        notes.append(
            f"{pairs:,} training pairs with a sentence of validation or a test are left out: {left_out.parent}"
        )
    return notes
