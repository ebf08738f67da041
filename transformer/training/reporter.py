"""A run as it goes on: a bar or a line every half minute, a line and samples at every validation."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lightning import Fabric
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from torch import Tensor

from transformer.data.directions import direction_name
from transformer.data.printable import console
from transformer.evaluation.evaluate import Evaluation
from transformer.training.averaging import averaging_note
from transformer.training.config import RunSettings
from transformer.training.optim import warmup_note

if TYPE_CHECKING:
    from transformer.training.loop import Training

# Seconds between two lines of progress where there is no bar.
HEARTBEAT = 30.0
# Columns of a terminal that a long bar needs; beside a short one the rest fits into 80.
WIDE = 115


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def spread(total: int, count: int) -> list[int]:
    """Up to `count` indices spread evenly over `total`."""
    return sorted({(2 * i + 1) * total // (2 * count) for i in range(count)})


class Reporter:
    """Shows on stderr how far training is: a bar with tokens/s and time left (in a file a line every half minute), a
    line a validation, sample translations when BLEU improves, and while testing a line every half minute. The first
    process speaks, the others are silent."""

    def __init__(self, fabric: Fabric, settings: RunSettings, total_steps: float) -> None:
        """`total_steps` of the whole run; infinite where only time or patience ends it."""
        self.speaks, self.settings, self.total_steps = fabric.is_global_zero, settings, total_steps
        self.console = console(stderr=True)
        self.started = self.last_line = self.stage_started = time.monotonic()
        self.first_step = 0
        self.loss: Tensor | None = None  # of the last step
        self.bar: Progress | None = None

    @contextmanager
    def training(self, training: Training) -> Iterator[None]:
        """While training goes on."""
        if not self.speaks:
            yield
            return
        self.started = self.last_line = time.monotonic()
        self.first_step, chosen, total = training.progress.step, self.settings.training, self.total_steps
        if math.isfinite(total):
            notes = [averaging_note(chosen.averaging, chosen.validate_every, int(total))]
            notes += [warmup_note(chosen.warmup_steps, int(total))] * (self.first_step < chosen.warmup_steps)
            for note in filter(None, notes):
                self._print(note)
        if reason := training.why_over():
            self._print(f"no step is left: {reason}")
        if self.console.is_terminal:
            self._start_bar()
        try:
            yield
            if self.bar is not None:
                self.bar.update(self.task, completed=training.progress.step)
        finally:
            if self.bar is not None:
                self.bar.stop()
                self.bar = None
        step = training.progress.step
        if self.first_step < step < total and (reason := training.why_over()):
            self._print(f"no further step after {step:,}: {reason}")
            # At the start nobody knew how far it would come.
            if self.first_step < chosen.warmup_steps and (note := warmup_note(chosen.warmup_steps, step)):
                self._print(note)

    def _start_bar(self) -> None:
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
        total = self.total_steps if math.isfinite(self.total_steps) else None
        self.task = self.bar.add_task("training", total=total, loss="", speed="")
        self.bar.start()

    def after_step(self, training: Training, loss: Tensor) -> None:
        self.loss = loss
        if self.bar is not None and training.progress.step % 10 == 0:
            speed = f"{training.throughput.tokens_per_second:,.0f} tokens/s"
            self.bar.update(self.task, completed=training.progress.step, loss=f"loss {float(loss):.2f}", speed=speed)
        elif self.bar is None and self.speaks and time.monotonic() - self.last_line >= HEARTBEAT:
            self._print(f"{self._step(training)}   {self._loss()}{self._speed_and_time(training)}")

    def begin(self) -> None:
        """A validation or a test begins."""
        self.stage_started = time.monotonic()

    def progressed(self, verb: str, done: int, total: int) -> None:
        """So many sentences of a split are validated or tested (by each process)."""
        if self.bar is not None:
            self.bar.update(self.task, description=f"validating {done / total:.0%}")
        elif self.speaks and time.monotonic() - self.last_line >= HEARTBEAT:
            elapsed = time.monotonic() - self.stage_started
            left = elapsed * (total - done) / done
            self._print(
                f"{verb} {done:,} of {total:,} sentences   {clock(elapsed)} elapsed, about {clock(left)} left"
            )

    def validated(
        self, training: Training, evaluations: dict[str, Evaluation], bleu: float, loss: float, is_better: bool
    ) -> None:
        """After a validation with these means over all directions; samples are shown where it `is_better` than all
        before."""
        if not self.speaks:
            return
        if self.bar is not None:
            self.bar.update(self.task, description="training")
        seconds = time.monotonic() - self.stage_started
        each = [f"{direction_name(training.translators[name].languages)} {one.scores['bleu']:.1f}" for name, one in evaluations.items()]
        directions = f" ({', '.join(each)})" if len(each) > 1 else ""
        self._print(
            f"{self._step(training)}   {self._loss()}validation loss {loss:.2f}   BLEU {bleu:.1f}{directions}   "
            f"validated in {seconds:.1f} s   {self._speed_and_time(training)}"
        )
        for place, (name, one) in enumerate(evaluations.items() if is_better else ()):
            # The directions take turns.
            count = len(range(place, self.settings.training.samples, len(evaluations)))
            for index in spread(len(one.hypotheses), count) if count else ():
                source, reference = training.pairs[name][index]
                self.console.print(Text(f"    {source}\n  → {one.hypotheses[index]}", style="bold"))
                self.console.print(Text(f"    {reference}", style="dim"))

    def testing(self, sizes: dict[str, int]) -> None:
        """A test of splits of these sizes begins."""
        self.begin()
        if self.speaks:
            counts = [f"{name} ({size:,} sentence{'s' * (size != 1)})" for name, size in sizes.items()]
            self._print(f"testing: {', '.join(counts)}")

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)
        self.last_line = time.monotonic()

    def _step(self, training: Training) -> str:
        total = f" of {self.total_steps:,}" if math.isfinite(self.total_steps) else ""
        return f"step {training.progress.step:,}{total}"

    def _loss(self) -> str:
        # A resumed run with no step left has trained nothing.
        return "" if self.loss is None else f"training loss {float(self.loss):.2f}   "

    def _speed_and_time(self, training: Training) -> str:
        step, elapsed = training.progress.step, time.monotonic() - self.started
        line = f"{training.throughput.tokens_per_second:,.0f} target tokens/s   {clock(elapsed)} elapsed"
        left, about = elapsed * (self.total_steps - step) / max(1, step - self.first_step), "about"
        if limit := self.settings.trainer.max_seconds:
            left, about = min(left, max(0.0, limit - training.seconds_used())), "at most"
        return line if math.isinf(left) or math.isnan(left) else f"{line}, {about} {clock(left)} left"
