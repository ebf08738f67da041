"""Reports the progress of a run: a bar or a line every half minute, and a line with samples at every validation."""

import math
import time
from collections.abc import Sequence

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from torch import Tensor

from transformer.printing import HEARTBEAT, console
from transformer.training.averaging import averaging_note
from transformer.training.config import RunSettings
from transformer.training.optim import warmup_note
from transformer.training.throughput import Throughput

# A terminal with fewer columns gets a short bar, so that everything fits into 80.
WIDE = 115
Sample = tuple[str, str, str]  # source, translation, reference


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def spread(total: int, count: int) -> list[int]:
    """Up to `count` indices spread evenly over `total`."""
    return sorted({(2 * i + 1) * total // (2 * count) for i in range(count)})


class Reporter:
    """Shows on stderr how far training is: a bar with tokens/s and time left (in a file a line every half minute), a
    line a validation, sample translations when BLEU improves, and while testing a line every half minute. Only the
    first process `speaks`."""

    def __init__(self, speaks: bool, settings: RunSettings, throughput: Throughput) -> None:
        self.speaks, self.settings, self.throughput = speaks, settings, throughput
        self.total_steps: int | float = math.inf
        self.console = console(stderr=True)
        self.started = self.last_line = self.stage_started = time.monotonic()
        self.first_step, self.seconds_before = 0, 0.0
        self.loss: Tensor | None = None  # of the last step
        self.bar: Progress | None = None

    def start(self, step: int, total_steps: int | float, seconds_before: float, why_over: str | None) -> None:
        """Training begins after `step` of `total_steps` updates (infinite if only time or patience ends it) and some
        seconds of an earlier process. With `why_over` it ends at once, for this reason."""
        self.total_steps = total_steps
        self.started = self.last_line = time.monotonic()
        self.first_step, self.seconds_before = step, seconds_before
        chosen, total = self.settings.training, self.total_steps
        if math.isfinite(total):
            self._print(averaging_note(chosen.averaging, chosen.validate_every, int(total)))
            self._print(warmup_note(chosen.warmup_steps, int(total)) if step < chosen.warmup_steps else None)
        self._print(why_over and f"no step is left: {why_over}")
        if self.speaks and self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(8 if self.console.width < WIDE else 40),
                MofNCompleteColumn(),
                TextColumn("{task.fields[loss]} {task.fields[speed]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, console=self.console, speed_estimate_period=120)
            shown = total if math.isfinite(total) else None
            self.task = self.bar.add_task("training", total=shown, completed=step, loss="", speed="")
            self.bar.start()

    def stop(self, step: int, why_over: str | None) -> None:
        """Training has ended; `why_over` is the reason, or None if it was stopped."""
        if self.bar is not None:
            self.bar.update(self.task, completed=step)
            self.bar.stop()
            self.bar = None
        if why_over and self.first_step < step < self.total_steps:
            self._print(f"no further step after {step:,}: {why_over}")

    def after_step(self, step: int, loss: Tensor) -> None:
        self.loss = loss
        if self.bar is not None and step % 10 == 0:
            speed = f"{self.throughput.tokens_per_second:,.0f} tokens/s"
            self.bar.update(self.task, completed=step, loss=f"loss {float(loss):.2f}", speed=speed)
        elif self.bar is None and self.speaks and time.monotonic() - self.last_line >= HEARTBEAT:
            self._print(f"{self._step(step)}   {self._loss()}{self._speed_and_time(step)}")

    def begin(self) -> None:
        """A validation or a test begins."""
        self.stage_started = time.monotonic()

    def progressed(self, verb: str, done: int, total: int) -> None:
        """`done` of `total` sentences of a split are validated or tested (by each process)."""
        if self.bar is not None:
            self.bar.update(self.task, description=f"validating {done / total:.0%}")
        elif time.monotonic() - self.last_line >= HEARTBEAT:
            elapsed = time.monotonic() - self.stage_started
            left = clock(elapsed * (total - done) / done)
            self._print(f"{verb} {done:,} of {total:,} sentences   {clock(elapsed)} elapsed, about {left} left")

    def validated(self, step: int, means: dict[str, float], bleus: dict[str, float], samples: Sequence[Sample]) -> None:
        """After a validation, with its loss and scores, the BLEU of each direction and the samples to show."""
        if self.bar is not None:
            self.bar.update(self.task, description="training")
        seconds = time.monotonic() - self.stage_started
        each = [f"{direction} {value:.1f}" for direction, value in bleus.items()]
        directions = f" ({', '.join(each)})" if len(each) > 1 else ""
        chrf = f"chrF {means['chrf']:.1f}   " if "chrf" in means else ""
        self._print(
            f"{self._step(step)}   {self._loss()}validation loss {means['loss']:.2f}   "
            f"BLEU {means['bleu']:.1f}{directions}   {chrf}"
            f"validated in {seconds:.1f} s   {self._speed_and_time(step)}"
        )
        for source, translation, reference in samples if self.speaks else ():
            self.console.print(Text(f"    {source}\n  → {translation}", style="bold"))
            self.console.print(Text(f"    {reference}", style="dim"))

    def note(self, line: str) -> None:
        """Prints a line about the run."""
        self._print(line)

    def testing(self, sizes: dict[str, int]) -> None:
        """A test of splits of these sizes begins."""
        self.begin()
        counts = [f"{name} ({size:,} sentence{'s' * (size != 1)})" for name, size in sizes.items()]
        self._print(f"testing: {', '.join(counts)}")

    def _print(self, line: str | None) -> None:
        if self.speaks and line:
            self.console.print(line, soft_wrap=True)
            self.last_line = time.monotonic()

    def _step(self, step: int) -> str:
        return f"step {step:,}" + (f" of {self.total_steps:,}" if math.isfinite(self.total_steps) else "")

    def _loss(self) -> str:
        # A resumed run without further steps has no loss.
        return "" if self.loss is None or not self.speaks else f"training loss {float(self.loss):.2f}   "

    def _speed_and_time(self, step: int) -> str:
        elapsed = time.monotonic() - self.started
        line = f"{self.throughput.tokens_per_second:,.0f} target tokens/s   {clock(elapsed)} elapsed"
        left, about = elapsed * (self.total_steps - step) / max(1, step - self.first_step), "about"
        if limit := self.settings.trainer.max_seconds:
            left, about = min(left, max(0.0, limit - self.seconds_before - elapsed)), "at most"
        return line if math.isinf(left) else f"{line}, {about} {clock(left)} left"
