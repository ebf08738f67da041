"""A split as ids in flat files on disk, memory-mapped: made once a corpus and tokeniser, whatever its size."""

import fcntl
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer.data.corpus import Pair
from transformer.data.tokenizer import UNKNOWN, Tokenizer

Ids = NDArray[np.integer]
# Pairs encoded at a time: enough to keep SentencePiece's threads busy, little enough to fit anywhere.
CHUNK = 10_000


@dataclass
class SideReport:
    """What one side of a split holds, counted while it was encoded."""

    tokens: int = 0
    unknown: int = 0
    longest: int = 0


@dataclass
class Report:
    """What preparing a split found; `too_long` and `empty` name the first hundred lines of each kind (from 1)."""

    pairs: int = 0
    too_long: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    too_long_count: int = 0
    empty_count: int = 0
    source: SideReport = field(default_factory=SideReport)
    target: SideReport = field(default_factory=SideReport)


class FlatIds:
    """Many id sequences in one flat array: sequence i is ids[offsets[i] : offsets[i + 1]]."""

    def __init__(self, ids: Ids, offsets: NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets
        self.lengths: NDArray[np.int64] = np.diff(offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


class PreparedSplit:
    """The ids of a split; pair i stands in line `lines[i]` (from 1) of the corpus."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = (
            FlatIds(np.load(folder / f"{side}.ids.npy", mmap_mode="r"), np.load(folder / f"{side}.offsets.npy"))
            for side in ("source", "target")
        )
        self.lines: NDArray[np.int64] = np.load(folder / "lines.npy")
        plain = json.loads((folder / "report.json").read_text())
        sides = {side: SideReport(**plain.pop(side)) for side in ("source", "target")}
        self.report = Report(**plain, **sides)

    def __len__(self) -> int:
        return len(self.lines)


class _IdsWriter:
    """Appends id sequences to a .npy file whose length is only known at the end."""

    def __init__(self, folder: Path, side: str, vocabulary: int, report: SideReport) -> None:
        self.path, self.side, self.report = folder, side, report
        self.type = np.uint16 if vocabulary <= 1 << 16 else np.uint32
        self.raw = (folder / f"{side}.raw").open("wb")
        self.lengths: list[NDArray[np.int64]] = []

    def append(self, sequences: list[list[int]]) -> None:
        lengths = np.array([len(ids) for ids in sequences], dtype=np.int64)
        flat = np.fromiter((id for ids in sequences for id in ids), dtype=self.type, count=int(lengths.sum()))
        self.raw.write(flat.tobytes())
        self.lengths.append(lengths)
        self.report.tokens += len(flat)
        self.report.unknown += int((flat == UNKNOWN).sum())
        self.report.longest = max(self.report.longest, int(lengths.max(initial=0)))

    def close(self) -> None:
        self.raw.close()
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), *self.lengths]).cumsum()
        np.save(self.path / f"{self.side}.offsets.npy", offsets)
        # np.save of a mapped array streams it: the ids are never in memory as a whole.
        raw = Path(self.raw.name)
        ids = np.memmap(raw, self.type, "r") if offsets[-1] else np.zeros(0, self.type)
        np.save(self.path / f"{self.side}.ids.npy", ids)
        raw.unlink()


def write_split(
    folder: Path,
    pairs: Iterable[Pair],
    source: Tokenizer,
    target: Tokenizer,
    max_length: int,
    keep_all: bool,
    advance: Callable[[int], None],
) -> None:
    """Encodes pairs into `folder`. Over-long and empty ones are left out and counted, or, with `keep_all` (a split to
    be scored), cut to `max_length` and counted. `advance` is told how many pairs each chunk had."""
    report = Report()
    writers = [
        _IdsWriter(folder, "source", len(source), report.source),
        _IdsWriter(folder, "target", len(target), report.target),
    ]
    lines: list[NDArray[np.int64]] = []
    for first, chunk in _chunks(pairs):
        encoded = zip(
            source.encode_all([pair[0] for pair in chunk]), target.encode_all([pair[1] for pair in chunk]), strict=True
        )
        kept, numbers = [], []
        for number, (source_ids, target_ids) in enumerate(encoded, first):
            if too_long := max(len(source_ids), len(target_ids)) > max_length:
                report.too_long_count += 1
                report.too_long += [number] if len(report.too_long) < 100 else []
            if empty := not (source_ids and target_ids):
                report.empty_count += 1
                report.empty += [number] if len(report.empty) < 100 else []
            if keep_all or not (too_long or empty):
                kept.append((source_ids[:max_length], target_ids[:max_length]))
                numbers.append(number)
        for side, writer in enumerate(writers):
            writer.append([pair[side] for pair in kept])
        lines.append(np.array(numbers, dtype=np.int64))
        report.pairs += len(kept)
        advance(len(chunk))
    for writer in writers:
        writer.close()
    np.save(folder / "lines.npy", np.concatenate(lines))
    (folder / "report.json").write_text(json.dumps(asdict(report)))


def _chunks(pairs: Iterable[Pair]) -> Iterator[tuple[int, list[Pair]]]:
    iterator, first = iter(pairs), 1
    while chunk := list(islice(iterator, CHUNK)):
        yield first, chunk
        first += len(chunk)


def cached_folder(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made by `make` unless it is there. Whole or not at all: it is renamed into place when done, and
    processes that want the same one wait for the first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            work = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
            try:
                make(work)
                work.replace(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
