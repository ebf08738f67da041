"""All checks over all splits, in two passes: the first learns what is usual, the second finds faults."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from transformer.data.config import DataSettings
from transformer.data.leakage import Leak, index_held_out
from transformer.data.words import Line, has_byte_order_mark, read_raw
from transformer.tools.doctor.checks import CHECKS, NEITHER, Check, Context
from transformer.tools.doctor.profile import Profile

# The number of lines that are listed for a finding.
MAX_LINES = 5
# Shows the progress of a pass over lines; its arguments are the lines and the name of the pass.
ShowProgress = Callable[[Iterable[Line], str], Iterable[Line]]


@dataclass
class Finding:
    """How often a check found its fault in a split: the number of pairs, of source sides and of target sides, the
    numbers of the first lines, and an example."""

    split: str
    check: Check
    pairs: int = 0
    sides: list[int] = field(default_factory=lambda: [0, 0])
    lines: list[int] = field(default_factory=list)
    example: str = ""

    def add(self, line: Line, sides: tuple[bool, bool]) -> None:
        self.pairs += 1
        self.sides = [count + has_fault for count, has_fault in zip(self.sides, sides, strict=True)]
        if len(self.lines) < MAX_LINES:
            self.lines.append(line.number)
        self.example = self.example or line.text[0 if sides[0] else 1]


@dataclass
class Dropped:
    """A training pair that a cleaned copy leaves out, the checks that it fails, and the held-out sentence in it."""

    line: Line
    reasons: list[str]
    leak: Leak | None


class Examination:
    """The examination of a corpus in one direction: its constructor learns what is usual, `run` finds faults. `others`
    are the corpora of other directions; their validation and test are held out too."""

    def __init__(
        self, settings: DataSettings, show_progress: ShowProgress, others: Sequence[DataSettings] = ()
    ) -> None:
        self.settings, self.show_progress = settings, show_progress
        self.pairs = dict.fromkeys(settings.splits, 0)
        # One index for sources, one for targets.
        self.held_out = index_held_out([settings, *others], settings.languages, self._read)
        self.profile = Profile(self._read(settings, "train"))
        files = [path for split in settings.splits for path in settings.files(split)]
        self.files_with_mark = [path for path in files if has_byte_order_mark(path)]
        self.findings: list[Finding] = []

    def _read(self, corpus: DataSettings, split: str) -> Iterator[Line]:
        """Reads a split; counts the pairs of the corpus under examination."""
        if corpus is not self.settings:
            yield from read_raw(corpus, split)
            return
        for line in self.show_progress(self.lines(split), f"reading {split}"):
            self.pairs[split] = line.number
            yield line

    def lines(self, split: str) -> Iterator[Line]:
        return read_raw(self.settings, split)

    def run(self, too_long: set[int], keep: Callable[[Line], None], drop: Callable[[Dropped], None]) -> list[Finding]:
        """Checks every pair of every split. Calls `keep` with each training pair to keep and `drop` with the others.

        `too_long` has the numbers of training pairs that are too long for training.
        """
        self.findings = []
        for split in self.settings.splits:
            train = split == "train"
            profile = self.profile if train else Profile(self.lines(split))
            context = Context(self.profile, profile, self.held_out, too_long, self.settings.languages)
            checks = {check: Finding(split, check) for check in CHECKS if train or not check.train_only}
            for line in self.show_progress(self.lines(split), f"checking {split}"):
                reasons = []
                for check, finding in checks.items():
                    sides = check.find(line, context)
                    if sides != NEITHER:
                        finding.add(line, sides)
                        reasons += [check.name] if check.drops else []
                if train and reasons:
                    leaks = (index.leak(text) for index, text in zip(self.held_out, line.text, strict=True))
                    drop(Dropped(line, reasons, next(filter(None, leaks), None)))
                elif train:
                    keep(line)
            self.findings += checks.values()
        return self.findings
