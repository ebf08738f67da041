"""A memory-mapped indexed dataset: sequences of ids in one flat array on disk.

Sequence i is ids[offsets[i] : offsets[i + 1]]. Only sequences that are used are read into memory.
"""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

IntArray = NDArray[np.integer]


class ArrayWriter:
    """Writes an array to a .npy file, part by part: its length is known only at the end, and the whole array is never
    in memory."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self.raw = path.with_suffix(".raw").open("wb")

    def append(self, values: ArrayLike) -> None:
        part = np.asarray(values, self.dtype)
        self.raw.write(part.tobytes())
        self.length += len(part)

    def close(self) -> None:
        self.raw.close()
        raw = Path(self.raw.name)
        # np.save of a mapped array streams it; an empty file cannot be mapped.
        np.save(self.path, np.memmap(raw, self.dtype, "r") if self.length else np.zeros(0, self.dtype))
        raw.unlink()


def map_array(path: Path) -> IntArray:
    """The array of a .npy file, read-only; its pages are read as they are used."""
    # A plain array: an access to np.memmap runs Python code (185 µs for 64 sequences, instead of 17).
    array: IntArray = np.asarray(np.load(path, mmap_mode="r"))
    return array


class MemoryMappedIds:
    """The sequences in the files NAME.ids.npy, NAME.offsets.npy and NAME.lengths.npy."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ids, self.offsets, self.lengths = (
            map_array(folder / f"{name}.{part}.npy") for part in ("ids", "offsets", "lengths")
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int | np.integer) -> IntArray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


class MemoryMappedIdsWriter:
    """Writes sequences of at most `longest` ids, each id at most `largest`."""

    def __init__(self, folder: Path, name: str, largest: int, longest: int) -> None:
        self.ids = ArrayWriter(folder / f"{name}.ids.npy", np.uint16 if largest < 1 << 16 else np.uint32)
        self.offsets = ArrayWriter(folder / f"{name}.offsets.npy", np.int64)
        # Signed, because lengths are subtracted, and with room for an end symbol.
        self.lengths = ArrayWriter(folder / f"{name}.lengths.npy", np.int16 if longest < (1 << 15) - 1 else np.int32)
        self.offsets.append([0])

    def append(self, sequences: list[list[int]]) -> None:
        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        self.offsets.append(self.ids.length + lengths.cumsum())
        self.ids.append(np.fromiter((id for ids in sequences for id in ids), self.ids.dtype, int(lengths.sum())))
        self.lengths.append(lengths)

    def close(self) -> None:
        for writer in (self.ids, self.offsets, self.lengths):
            writer.close()
