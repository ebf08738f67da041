"""A split as memory-mapped ids on disk: of any size, and encoded once for a corpus and its tokenizers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from transformer.data.mmap import ArrayWriter, IntArray, MemoryMappedIds, MemoryMappedIdsWriter, map_array
from transformer.data.text_files import Pair
from transformer.data.tokenizer import Tokenizer

# The number of pairs encoded at a time, and of their characters: enough for all threads of SentencePiece, and few
# enough for any memory.
CHUNK, MAX_CHARACTERS = 10_000, 10_000_000
NUMBERS = ("numbers", "too_long", "empty")  # files in the folder of an EncodedSplit, besides the ids
# At most this number of pairs is counted for embeddings or alignments: more would change little.
MAX_COUNTED = 200_000
Lengths = tuple[IntArray, IntArray]  # tokens of each pair's source and target


class Split(ABC):
    """Pairs of ids, numbered from 0, for making batches."""

    resampled_each_epoch = False  # whether the total length of all pairs differs from epoch to epoch

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def lengths(self, epoch: int) -> Lengths: ...

    @abstractmethod
    def pair(self, epoch: int, index: int) -> tuple[IntArray, IntArray]: ...

    @abstractmethod
    def pair_number(self, epoch: int, index: int) -> str:
        """The number of the pair in the corpus, for people: counted from 1."""

    @property
    def longest(self) -> int:
        """The number of tokens of the longest side of all pairs."""
        return int(max(side.max(initial=0) for side in self.lengths(epoch=0)))


class EncodedSplit(Split):
    """The ids of a split. Pair i is number `numbers[i]` of the corpus; `too_long` and `empty` are such numbers, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target = MemoryMappedIds(folder, "source"), MemoryMappedIds(folder, "target")
        self.numbers, self.too_long, self.empty = (map_array(folder / f"{name}.npy") for name in NUMBERS)

    def __reduce__(self) -> tuple[type["EncodedSplit"], tuple[Path]]:
        """Only the path is pickled: a worker that is not forked (as from Python 3.14 on) maps the files itself."""
        return EncodedSplit, (self.folder,)

    def __len__(self) -> int:
        return len(self.numbers)

    def lengths(self, epoch: int) -> Lengths:
        return self.source.lengths, self.target.lengths

    def pair(self, epoch: int, index: int) -> tuple[IntArray, IntArray]:
        return self.source[index], self.target[index]

    def pair_number(self, epoch: int, index: int) -> str:
        return str(self.numbers[index])


def evenly_spread(splits: Sequence[Split]) -> list[tuple[Split, int]]:
    """The splits and indices of all pairs, or of about MAX_COUNTED pairs at equal distances."""
    step = max(1, -(-sum(map(len, splits)) // MAX_COUNTED))
    return [(split, index) for split in splits for index in range(0, len(split), step)]


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk, characters = list[Pair](), 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(chunk) == CHUNK or characters >= MAX_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def write_split(
    folder: Path, pairs: Iterable[Pair], tokenizers: tuple[Tokenizer, Tokenizer], max_length: int, keep_all: bool
) -> None:
    """Encodes pairs into `folder`. Pairs that are too long or have an empty side are left out, or, with `keep_all` (for
    a split to score), cut to `max_length`; in both cases their numbers are saved. Pairs are counted from 1, without
    headings and empty lines of a table."""
    writers = [
        MemoryMappedIdsWriter(folder, side, len(tokenizer), max_length)
        for side, tokenizer in zip(("source", "target"), tokenizers, strict=True)
    ]
    numbers = {name: ArrayWriter(folder / f"{name}.npy", np.int64) for name in NUMBERS}
    next_numbers = count(1)
    for chunk in _chunks(pairs):
        sides = [tokenizer.encode_all([pair[side] for pair in chunk]) for side, tokenizer in enumerate(tokenizers)]
        kept, noted = [], {name: list[int]() for name in NUMBERS}
        for ids, number in zip(zip(*sides, strict=True), next_numbers):  # noqa: B905, the numbers never end
            if too_long := max(map(len, ids)) > max_length:
                noted["too_long"].append(number)
            # The tag of a language is not text.
            if empty := any(len(side) <= len(t.prefix) for side, t in zip(ids, tokenizers, strict=True)):
                noted["empty"].append(number)
            if keep_all or not (too_long or empty):
                kept.append([side[:max_length] for side in ids])
                noted["numbers"].append(number)
        for side, writer in enumerate(writers):
            writer.append([pair[side] for pair in kept])
        for name in NUMBERS:
            numbers[name].append(noted[name])
    for writer in writers:
        writer.close()
    for numbers_of_pairs in numbers.values():
        numbers_of_pairs.close()
