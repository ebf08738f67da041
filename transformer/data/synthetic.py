"""Synthetic pairs, with one side written by a model (scripts/augment.py): reading, checking, and their origins."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from transformer.data.config import DataSettings
from transformer.data.languages import LANGUAGE_SAMPLE, language_faults
from transformer.data.splitting import comparable
from transformer.data.text_files import Pair, find_files, read_lines, read_pairs

SYNTHETIC = "synthetic"  # their name among the splits
ORIGIN = "origin"  # PREFIX.origin: line n says where pair n comes from


def synthetic_files(settings: DataSettings) -> list[list[Path]]:
    """The files of each PREFIX; FileNotFoundError names missing files."""
    prefixes = [find_files(prefix, *settings.languages) for prefix in settings.synthetic]
    if tables := [files[0] for files in prefixes if len(files) == 1]:
        raise ValueError(
            f"data.synthetic: {tables[0]} is a table: give the PREFIX of two files, as augment.py writes them"
        )
    return prefixes


def read_synthetic(settings: DataSettings) -> Iterator[Pair]:
    """The pairs of all files, one after another."""
    for files in synthetic_files(settings):
        yield from read_pairs(files, *settings.languages)


HeldOut = dict[str, tuple[str, int]]  # the sentences of all splits except train, with their split and number


def held_out_sentences(settings: DataSettings) -> HeldOut:
    """The held-out sentences of all directions. Sentences that differ only in case, punctuation or numbers count as the
    same, as when a corpus is cut into splits."""
    held_out: HeldOut = {}
    for name, (corpus, split) in settings.all_splits.items():
        if split == "train":
            continue
        for number, pair in enumerate(corpus.read(split), 1):
            held_out |= {comparable(text): (name, number) for text in pair}
    held_out.pop("", None)
    return held_out


def origins(settings: DataSettings) -> Counter[str]:
    """The number of pairs for each origin (side, model, method, text) in PREFIX.origin, or without this file."""
    counts: Counter[str] = Counter()
    for files in synthetic_files(settings):
        # PREFIX.origin, or PREFIX.de-en.origin beside PREFIX.de-en.de.
        prefix = str(files[0]).removesuffix(".gz").removesuffix(f".{settings.source_language}")
        path = Path(f"{prefix}.{ORIGIN}")
        pairs, of_file = sum(1 for _ in read_lines(files[0])), Counter[str]()
        if not path.is_file():
            counts["origin not stated"] += pairs
            continue
        for line in read_lines(path):
            columns = line.split("\t")
            if len(columns) != 5:
                raise ValueError(f"{path} holds no origins: a line has 5 columns, separated by tabs")
            text, _, language, model, method = columns
            of_file[f"`{language}` by `{model}` ({method}), from `{text}`"] += 1
        if of_file.total() != pairs:
            lines = f"{of_file.total():,} lines for {pairs:,} pairs"
            raise ValueError(f"{path} has {lines}: give the file that was written with them, or delete it")
        counts += of_file
    return counts


def check_synthetic(settings: DataSettings, held_out: HeldOut) -> None:
    """Raises ValueError for swapped languages, for a held-out sentence on either side, and for a PREFIX.origin that
    does not fit these pairs, because the model card needs it at the end."""
    for files in synthetic_files(settings):
        is_swapped, faults = language_faults(
            islice(read_pairs(files, *settings.languages), LANGUAGE_SAMPLE), settings.languages
        )
        if is_swapped:
            raise ValueError(f"source and target of {files[0]} are swapped: {'; '.join(faults)}")
        for number, pair in enumerate(read_pairs(files, *settings.languages), 1):
            for file, text in zip(files, pair, strict=True):
                if leak := held_out.get(comparable(text)):
                    raise ValueError(
                        f"{file} line {number} is a sentence of {leak[0]} (line {leak[1]}): its score would be too "
                        "high; augment.py --filters held_out --corpus … leaves such lines out"
                    )
    origins(settings)
