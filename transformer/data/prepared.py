"""A split as ids in flat files on disk, memory-mapped: made once a corpus and tokeniser, whatever its size."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer.data.corpus import Pair
from transformer.data.tokenizer import UNKNOWN, Tokenizer
from transformer.storage.flat import FlatIds, FlatIdsWriter, Ids

# Pairs encoded at a time: enough to keep SentencePiece's threads busy, little enough to fit anywhere.
CHUNK = 10_000


@dataclass
class SideReport:
    """What one side of a split holds, counted while it was encoded."""

    tokens: int = 0
    unknown: int = 0
    longest: int = 0

    def add(self, sequences: list[list[int]], flat: Ids) -> None:
        self.tokens += len(flat)
        self.unknown += int((flat == UNKNOWN).sum())
        self.longest = max([self.longest, *map(len, sequences)])


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


class PreparedSplit:
    """The ids of a split; pair i stands in line `lines[i]` (from 1) of the corpus."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = FlatIds(folder, "source"), FlatIds(folder, "target")
        self.lines: NDArray[np.int64] = np.load(folder / "lines.npy")
        plain = json.loads((folder / "report.json").read_text())
        for side in ("source", "target"):
            plain[side] = SideReport(**plain[side])
        self.report = Report(**plain)

    def __len__(self) -> int:
        return len(self.lines)


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
    sides = [
        (FlatIdsWriter(folder, "source", len(source)), report.source),
        (FlatIdsWriter(folder, "target", len(target)), report.target),
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
        for side, (writer, counts) in enumerate(sides):
            counts.add([pair[side] for pair in kept], writer.append([pair[side] for pair in kept]))
        lines.append(np.array(numbers, dtype=np.int64))
        report.pairs += len(kept)
        advance(len(chunk))
    for writer, _ in sides:
        writer.close()
    np.save(folder / "lines.npy", np.concatenate(lines))
    (folder / "report.json").write_text(json.dumps(asdict(report)))


def _chunks(pairs: Iterable[Pair]) -> Iterator[tuple[int, list[Pair]]]:
    iterator, first = iter(pairs), 1
    while chunk := list(islice(iterator, CHUNK)):
        yield first, chunk
        first += len(chunk)
