"""Which sentences a run trained on, as hashes in its folder: a run that begins with its weights then knows whether its
own test is among them.

The hashes are of both sides of train, and of all that the weights had seen before; where that is not known, none are
kept. Of more than MAX_HASHES sentences only the smallest hashes are kept (8 MB). A test sentence with a larger hash
cannot be looked up and is not counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer.data.corpus import DataSettings
from transformer.data.splitting import LEFT_OUT, comparable, hash64
from transformer.data.text_files import Pair
from transformer.files import SEEN_SENTENCES, atomic_write, read_file, run_of

Hashes = NDArray[np.uint64]
MAX_HASHES = 1 << 20  # in SEEN_SENTENCES, 8 bytes each, the smallest first
NO_SENTENCES = np.zeros(0, np.uint64)


def sentence_hash(text: str) -> int | None:
    """The hash of what is comparable of a sentence; None where nothing is."""
    return hash64(kept, byteorder="little") if (kept := comparable(text)) else None


def smallest(some: Hashes, others: Hashes) -> Hashes:
    """Of some hashes and others the smallest MAX_HASHES, sorted, each once."""
    return np.union1d(some, others)[:MAX_HASHES]


def sentence_hashes(pairs: Iterable[Pair]) -> Hashes:
    """The hashes of both sides of all pairs, sorted, the smallest MAX_HASHES of them."""
    values: Iterator[int] = (value for pair in pairs for text in pair if (value := sentence_hash(text)) is not None)
    hashes = NO_SENTENCES
    while len(more := np.fromiter(islice(values, MAX_HASHES), np.uint64)):
        hashes = smallest(hashes, more)
    return hashes


def write_hashes(folder: Path, hashes: Hashes) -> None:
    atomic_write(folder / SEEN_SENTENCES, hashes.astype("<u8").tobytes())


def read_hashes(model: Path) -> Hashes | None:
    """The hashes in the folder of the run that a checkpoint or a translator lies in; None where there are none.

    Raises ValueError for a file that is not of this kind.
    """
    path = run_of(model) / SEEN_SENTENCES
    if not path.exists():
        return None
    content = read_file(path, max_bytes=8 * MAX_HASHES)
    hashes = np.frombuffer(content[: len(content) // 8 * 8], "<u8").astype(np.uint64)
    if len(content) % 8 or not (hashes[:-1] < hashes[1:]).all():
        raise ValueError(f"{path} holds no hashes of sentences: it was cut or altered")
    return hashes


def count_known_pairs(seen: Hashes, pairs: Iterable[Pair]) -> tuple[int, int]:
    """How many pairs have a side that was seen, and how many could be looked up."""
    limit = int(seen[-1]) if len(seen) == MAX_HASHES else (1 << 64) - 1
    known, found, looked_up = set(seen.tolist()), 0, 0
    for pair in pairs:
        hashes = [value for text in pair if (value := sentence_hash(text)) is not None and value <= limit]
        looked_up += bool(hashes)
        found += any(value in known for value in hashes)
    return found, looked_up


def _looked_up(looked_up: int, pairs: list[Pair]) -> str:
    return f"{looked_up:,}{'' if looked_up == len(pairs) else ' checked'} sentences"


def overlap_notes(train: Hashes, texts: dict[str, list[Pair]]) -> list[str]:
    """A line for each split of `texts` that has sentences of the corpus' own training split."""
    counts = {split: count_known_pairs(train, pairs) for split, pairs in texts.items()}
    return [
        f"{split}: a side of {found:,} of {_looked_up(looked_up, texts[split])} is in train too (doctor.py lists them)"
        for split, (found, looked_up) in counts.items()
        if found
    ]


def leakage_warnings(model: str, texts: dict[str, list[Pair]]) -> list[str]:
    """A line for each split of `texts` that has sentences which the model to begin with was trained on."""
    seen = read_hashes(Path(model))
    if seen is None:
        unknown = "whether sentences of the test were among it is not known"
        return [f"{model} does not say what it was trained on: {unknown}"]
    counts = {split: count_known_pairs(seen, pairs) for split, pairs in texts.items()}
    return [
        f"{split}: {found:,} of {_looked_up(looked_up, texts[split])} were in what {model} was trained on, so its "
        "score is too high"
        for split, (found, looked_up) in counts.items()
        if found
    ]


def fold_warnings(model: str, fold: list[int], corpus: DataSettings) -> list[str]:
    """A line if the model to begin with was trained on pairs of the part that `corpus` has left out: what it makes of
    them is not the translation of a model that has not seen them."""
    seen = read_hashes(Path(model))
    if seen is None:
        return []  # `leakage_warnings` says that it is not known
    left_out = replace(corpus, train=str(Path(str(corpus.train)).with_name(LEFT_OUT)))
    parts = [one for one, split in left_out.all_splits.values() if split == "train"]
    found, looked_up = count_known_pairs(seen, chain.from_iterable(one.read("train") for one in parts))
    if not found:
        return []
    remedy = "leave init_from= out, or begin with a run that has not seen them"
    return [
        f"data.fold={fold}: {found:,} of {looked_up:,} pairs left out were in what {model} was trained on: {remedy}"
    ]
