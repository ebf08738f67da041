"""All checks over all splits, in two passes over training: one to learn what is usual, one to find what is not."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from transformer.data.corpus import DataSettings
from transformer.doctor.checks import CHECKS, NEITHER, Check, Seen
from transformer.doctor.leakage import HeldOut, Leak
from transformer.doctor.profile import Profile
from transformer.doctor.text import Line, has_byte_order_mark, read_raw

# Lines named a finding: enough to look at, few enough to read.
SHOWN = 5
Watched = Callable[[Iterable[Line], str], Iterable[Line]]


@dataclass
class Finding:
    """How often a check found its fault in a split: in so many pairs, on so many source and target sides; the first
    lines that have it."""

    split: str
    check: Check
    pairs: int = 0
    sides: list[int] = field(default_factory=lambda: [0, 0])
    lines: list[int] = field(default_factory=list)
    example: str = ""

    def add(self, line: Line, sides: tuple[bool, bool]) -> None:
        self.pairs += 1
        self.sides = [count + found for count, found in zip(self.sides, sides, strict=True)]
        if len(self.lines) < SHOWN:
            self.lines.append(line.number)
        self.example = self.example or line.text[0 if sides[0] else 1]


@dataclass
class Dropped:
    """A training pair that a cleaned copy leaves out, the names of the checks that say so, and what it leaks."""

    line: Line
    reasons: list[str]
    leak: Leak | None


class Examination:
    """A corpus under examination: `look` learns what is usual, `findings` then has what is not.

    `watched` shows the progress of a pass, given its lines and its name.
    """

    def __init__(self, settings: DataSettings, watched: Watched) -> None:
        self.settings, self.watched = settings, watched
        self.held_out = HeldOut()
        self.pairs = dict.fromkeys(settings.splits, 0)
        for split in settings.splits:
            if split != "train":
                self.held_out.add(split, self._counted(split))
        self.profile = Profile(self._counted("train"))
        files = [path for split in settings.splits for path in settings.files(split)]
        self.marked = [path for path in files if has_byte_order_mark(path)]
        self.findings: list[Finding] = []

    def _counted(self, split: str) -> Iterator[Line]:
        for line in self.watched(self.lines(split), f"reading {split}"):
            self.pairs[split] = line.number
            yield line

    def lines(self, split: str) -> Iterator[Line]:
        return read_raw(self.settings.files(split), self.settings.languages)

    def run(self, too_long: set[int], keep: Callable[[Line], None], drop: Callable[[Dropped], None]) -> list[Finding]:
        """Checks every pair of every split; `keep` is given the training pairs without a fault, `drop` the others."""
        self.findings = []
        for split in self.settings.splits:
            train = split == "train"
            own = self.profile if train else Profile(self.lines(split))
            seen = Seen(self.profile, own, self.held_out, too_long)
            checks = {check: Finding(split, check) for check in CHECKS if train or not check.train_only}
            for line in self.watched(self.lines(split), f"checking {split}"):
                reasons = []
                for check, finding in checks.items():
                    sides = check.find(line, seen)
                    if sides != NEITHER:
                        finding.add(line, sides)
                        reasons += [check.name] if check.drops else []
                if train and reasons:
                    drop(Dropped(line, reasons, self.held_out.leak(line.text[0])))
                elif train:
                    keep(line)
            self.findings += checks.values()
        return self.findings
