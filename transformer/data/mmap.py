"""A memory-mapped indexed dataset: sequences of ids in one flat array on disk.

Sequence i is ids[offsets[i] : offsets[i + 1]].
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

IdArray = NDArray[np.integer]
EMPTY: IdArray = np.zeros(0, np.uint16)  # in place of an empty file, which cannot be mapped


class MemoryMappedIds:
    """The sequences in the files NAME.ids.npy and NAME.offsets.npy; only those that are used come into memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ids: IdArray = np.load(folder / f"{name}.ids.npy", mmap_mode="r")
        self.offsets: NDArray[np.int64] = np.load(folder / f"{name}.offsets.npy")
        self.lengths: NDArray[np.int64] = np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int | np.integer) -> IdArray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


class MemoryMappedIdsWriter:
    """Writes sequences, whose number is only known at the end; no id may exceed `largest`."""

    def __init__(self, folder: Path, name: str, largest: int) -> None:
        self.folder, self.name = folder, name
        self.type = np.uint16 if largest < 1 << 16 else np.uint32
        self.raw = (folder / f"{name}.raw").open("wb")
        self.lengths: list[NDArray[np.int64]] = []

    def append(self, sequences: list[list[int]]) -> None:
        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        flat = np.fromiter((id for ids in sequences for id in ids), dtype=self.type, count=int(lengths.sum()))
        self.raw.write(flat.tobytes())
        self.lengths.append(lengths)

    def close(self) -> None:
        self.raw.close()
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), *self.lengths]).cumsum()
        np.save(self.folder / f"{self.name}.offsets.npy", offsets)
        # np.save of a mapped array streams it: the ids are never in memory as a whole.
        raw = Path(self.raw.name)
        np.save(self.folder / f"{self.name}.ids.npy", np.memmap(raw, self.type, "r") if offsets[-1] else EMPTY)
        raw.unlink()
