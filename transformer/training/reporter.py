"""A run as it goes on: a bar or a line every half minute, a line and samples at every validation, curves."""

import math
import time
from pathlib import Path
from typing import Any

from lightning import Callback, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from transformer.data.printable import console
from transformer.data.text_files import Pair
from transformer.files import METRICS_LOG
from transformer.inference import Translator
from transformer.inference.search import SearchSettings
from transformer.training.callbacks.averaging import averaging_note
from transformer.training.callbacks.contention import Contention
from transformer.training.callbacks.train_progress import time_limit
from transformer.training.optim import warmup_note
from transformer.visualization.curves import draw_curves

# Seconds between two lines of progress where there is no bar.
HEARTBEAT = 30.0
# Columns of a terminal that a long bar needs; beside a short one the rest fits into 80.
WIDE = 115
# How the scores of single directions begin, where there are several.
OF_ONE = "validation/bleu."


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _done(batches: list[int | float], split: int, batch: int) -> tuple[int, int]:
    """How many batches are done after this one of this split, and how many there are, by the batches of each split."""
    return int(sum(batches[:split])) + batch + 1, int(sum(batches))


class Reporter(Callback):
    """Shows on stderr how far training is: a bar with tokens/s and time left (in a file a line every half minute), a
    line a validation, sample translations when BLEU improves, and while testing a line every half minute. The first
    process speaks, the others are silent."""

    def __init__(self, samples: list[tuple[Translator, dict[int, Pair]]], search: SearchSettings) -> None:
        """`samples` are pairs of validation by their numbers in the split, for each direction."""
        self.samples, self.search = samples, search
        self.console = console(stderr=True)
        self.best = -1.0
        self.contention = Contention()
        self.bar: Progress | None = None

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        self.started, self.pause, self.first_step = time.monotonic(), 0.0, trainer.global_step
        self.paused_since: float | None = None
        self.last_line = self.started
        self.contention.start()
        total = self._total(trainer)
        if trainer.is_global_zero and total is not None:
            settings = module.settings
            notes = [averaging_note(settings.averaging, settings.validate_every, total)]
            if trainer.global_step < settings.warmup_steps:
                notes.append(warmup_note(settings.warmup_steps, total))
            for note in filter(None, notes):
                self._print(note)
        if trainer.is_global_zero and total is not None and trainer.global_step >= total:
            more = "a larger trainer.max_steps or trainer.max_epochs trains longer"
            self._print(f"no step is left: {trainer.global_step:,} are done, the end is at {total:,} ({more})")
        if trainer.is_global_zero and self.console.is_terminal:
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
            self.task = self.bar.add_task("training", total=total, loss="", speed="")
            self.bar.start()

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
        if self.paused_since is not None:  # by a validation, and all that came after it: samples, curves, checkpoints
            self.pause += time.monotonic() - self.paused_since
            self.paused_since = None

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        on_cpu = trainer.strategy.root_device.type == "cpu"
        if trainer.is_global_zero and on_cpu and (note := self.contention.note()):
            self._print(note)
        if self.bar is not None and trainer.global_step % 10 == 0:
            loss = trainer.progress_bar_metrics.get("train/loss", float("nan"))
            speed = f"{self._speed(module):,.0f} tokens/s"
            self.bar.update(self.task, completed=trainer.global_step, loss=f"loss {loss:.2f}", speed=speed)
        elif self.bar is None and trainer.is_global_zero and time.monotonic() - self.last_line >= HEARTBEAT:
            loss = trainer.progress_bar_metrics.get("train/loss", float("nan"))
            self._print(f"{self._step(trainer)}   training loss {loss:.2f}   {self._speed_and_time(trainer, module)}")

    def on_validation_start(self, trainer: Trainer, module: Any) -> None:
        self.paused_since = time.monotonic()

    def on_validation_batch_end(
        self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int, dataloader_idx: int = 0
    ) -> None:
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        assert self.paused_since is not None
        done, total = _done(trainer.num_val_batches, dataloader_idx, batch_index)
        if self.bar is not None:
            self.bar.update(self.task, description=f"validating {done / total:.0%}")
        else:
            self._print_done("validated", done, total, self.paused_since)

    def on_validation_end(self, trainer: Trainer, module: Any) -> None:
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        assert self.paused_since is not None
        if self.bar is not None:
            self.bar.update(self.task, description="training")
        seconds = time.monotonic() - self.paused_since
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        bleu, loss = metrics["validation/bleu"], metrics["validation/loss"]
        each = [f"{name.partition('.')[2]} {value:.1f}" for name, value in metrics.items() if name.startswith(OF_ONE)]
        directions = f" ({', '.join(each)})" if each else ""
        # A resumed run with no step left has trained nothing.
        trained = f"training loss {metrics['train/loss']:.2f}   " if "train/loss" in metrics else ""
        self._print(
            f"{self._step(trainer)}   {trained}validation loss {loss:.2f}   BLEU {bleu:.1f}{directions}   "
            f"validated in {seconds:.1f} s   {self._speed_and_time(trainer, module)}"
        )
        if bleu > self.best:
            self.best = bleu
            for translator, pairs in self.samples:
                sources = [source for source, _ in pairs.values()]
                found = translator.n_best(sources, self.search, line_numbers=list(pairs))
                for (source, reference), hypotheses in zip(pairs.values(), found, strict=True):
                    self.console.print(Text(f"    {source}\n  → {hypotheses[0].text}", style="bold"))
                    self.console.print(Text(f"    {reference}", style="dim"))

    def on_train_end(self, trainer: Trainer, module: Any) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=trainer.global_step)
        self._stop()
        total, warmup = self._total(trainer), module.settings.warmup_steps
        was_said = total is not None and warmup_note(warmup, total)
        note = None if was_said or self.first_step >= warmup else warmup_note(warmup, max(1, trainer.global_step))
        if note and time_limit(trainer) and trainer.is_global_zero:  # at the start nobody knew how far it would come
            self._print(note)

    def on_test_start(self, trainer: Trainer, module: Any) -> None:
        if trainer.is_global_zero:
            counts = [len(module.pairs[split]) for split in module.test_splits]
            sizes = [f"{count:,} sentence{'s' * (count != 1)}" for count in counts]
            if trainer.limit_test_batches != 1.0 or isinstance(trainer.limit_test_batches, int):
                parts = zip(trainer.num_test_batches, sizes, strict=True)
                sizes = [f"{batches:,} of the batches of {size}" for batches, size in parts]
            splits = (f"{split} ({size})" for split, size in zip(module.test_splits, sizes, strict=True))
            self._print(f"testing: {', '.join(splits)}")
            self.test_started = self.last_line

    def on_test_batch_end(
        self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int, dataloader_idx: int = 0
    ) -> None:
        if trainer.is_global_zero:
            self._print_done("tested", *_done(trainer.num_test_batches, dataloader_idx, batch_index), self.test_started)

    def on_exception(self, trainer: Trainer, module: Any, exception: BaseException) -> None:
        self._stop()

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]

    def _stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)
        self.last_line = time.monotonic()

    def _print_done(self, verb: str, done: int, total: int, started: float) -> None:
        """A line on how much is validated or tested, where the last line is half a minute old."""
        if time.monotonic() - self.last_line >= HEARTBEAT:
            elapsed = time.monotonic() - started
            left = elapsed * (total - done) / done
            self._print(f"{verb} {done:,} of {total:,} batches   {_clock(elapsed)} elapsed, about {_clock(left)} left")

    def _step(self, trainer: Trainer) -> str:
        total = self._total(trainer)
        return f"step {trainer.global_step:,}" + ("" if total is None else f" of {total:,}")

    def _speed_and_time(self, trainer: Trainer, module: Any) -> str:
        step, total, elapsed = trainer.global_step, self._total(trainer), time.monotonic() - self.started
        line = f"{self._speed(module):,.0f} target tokens/s   {_clock(elapsed)} elapsed"
        left, about = math.inf, "about"
        if total is not None:
            left = elapsed * (total - step) / max(1, step - self.first_step)
        if timer := time_limit(trainer):
            left, about = min(left, max(0.0, timer.time_remaining() or 0.0)), "at most"
        return line if math.isinf(left) else f"{line}, {about} {_clock(left)} left"

    def _speed(self, module: Any) -> float:
        """Target tokens a second of training."""
        until = time.monotonic() if self.paused_since is None else self.paused_since
        seconds = until - self.started - self.pause
        return float(module.tokens_seen / max(seconds, 1e-9))

    def _total(self, trainer: Trainer) -> int | None:
        """The steps of the whole run, unless time or patience ends it before; None where only these do."""
        total = trainer.estimated_stepping_batches
        return None if total == float("inf") else int(total)


class LearningRate(LearningRateMonitor):
    """Logs the learning rate once a step, where Lightning does it for each of the accumulated batches."""

    def __init__(self) -> None:
        super().__init__("step")

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
        if batch_index % trainer.accumulate_grad_batches == 0:
            super().on_train_batch_start(trainer, module, batch, batch_index)


class Curves(Callback):
    """Draws `curves.png` from `metrics.csv` after every validation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_validation_end(self, trainer: Trainer, module: Any) -> None:
        metrics = self.folder / METRICS_LOG
        for logger in trainer.loggers:
            logger.save()
        if trainer.is_global_zero and not trainer.sanity_checking and metrics.exists():
            draw_curves(metrics, self.folder / "curves.png")
