"""What all processes of a run know after each step: the sums of their losses, and whether one of them has to stop.

The host reads these numbers without waiting for the device: on a CPU at once, on a GPU one step later.
"""

import math
import signal
import time
from collections.abc import Callable

import torch
from lightning import Fabric
from torch import Tensor

from transformer.data.encoded import Split
from transformer.signals import Interrupted, SignalHandler
from transformer.training.config import TrainerSettings
from transformer.training.nonfinite import Update, nonfinite_error


class Agreement:
    """`pairs` are those that are trained on, to name them; `save_every` is a number of minutes."""

    def __init__(
        self,
        fabric: Fabric,
        signals: SignalHandler,
        trainer: TrainerSettings,
        save_every: float | None,
        pairs: Split,
    ) -> None:
        self.fabric, self.signals, self.trainer, self.pairs = fabric, signals, trainer, pairs
        self.save_every, self.max_seconds = save_every, trainer.max_seconds
        self.is_asked_to_stop = self.is_time_to_save = False
        self.share_of_time = 0.0  # of trainer.max_time, that is over
        self._seconds_before, self._started, self._saved = 0.0, time.monotonic(), time.monotonic()
        # Of the step before, on a GPU: numbers on their way to the host, and when they have come.
        self._waiting: tuple[Tensor, Callable[[], None], Update] | None = None

    def start(self, seconds_before: float) -> None:
        """The clock begins now; a run that goes on has used some seconds before."""
        self._seconds_before, self._started, self._saved = seconds_before, time.monotonic(), time.monotonic()
        if self.max_seconds:
            self.share_of_time = seconds_before / self.max_seconds

    @property
    def seconds_used(self) -> float:
        """By the run so far."""
        return self._seconds_before + time.monotonic() - self._started

    def saved(self) -> None:
        self._saved, self.is_time_to_save = time.monotonic(), False

    def sum(self, sums: Tensor) -> Tensor:
        """The `sums` of all processes, and the sums of three flags of theirs, which `read` heeds."""
        first, minutes = self.fabric.is_global_zero, (time.monotonic() - self._saved) / 60
        flags = [
            float(self.signals.received is not None),
            float(first and self.save_every is not None and minutes >= self.save_every),
            self.seconds_used / self.max_seconds if first and self.max_seconds else 0.0,
        ]
        sums = torch.cat([sums, torch.tensor(flags, device=sums.device)])
        if self.fabric.world_size > 1:  # not fabric.all_reduce, which has a barrier where the host waits for the device
            torch.distributed.all_reduce(sums)
        return sums

    def read(self, sums: Tensor, norm: Tensor, update: Update) -> None:
        """Takes over what the processes agree on after an update: the `sum` of (loss, …) and the norm of the gradient.

        Raises NonFiniteError if one of them is not finite: on a CPU before the update is made, on a GPU at the next
        step.
        """
        numbers = torch.cat([sums, norm[None].float()])
        if numbers.device.type != "cuda":
            return self._heed(numbers.tolist(), update)
        copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True).copy_(numbers, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        self.flush()
        self._waiting = copy, event.synchronize, update
        return None

    def flush(self) -> None:
        """Reads what nobody has read yet, as before a checkpoint."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            numbers, wait, update = waiting
            wait()
            self._heed(numbers.tolist(), update)

    def _heed(self, numbers: list[float], update: Update) -> None:
        loss, *_, stop, save, self.share_of_time, norm = numbers
        self.is_asked_to_stop, self.is_time_to_save = stop > 0, save > 0
        # fp16's scaler leaves out an update whose gradient is not finite, lowers its scale and goes on.
        is_scaled = self.trainer.precision == "16-mixed"
        if not math.isfinite(loss) or not (is_scaled or math.isfinite(norm)):
            raise nonfinite_error(update, norm, self.pairs, can_save=self.fabric.device.type != "cuda")

    def stop_if_asked(self) -> None:
        """Between two chunks of a validation: raises Interrupted in all processes if one of them was asked to stop."""
        stop = torch.tensor(float(self.signals.received is not None), device=self.fabric.device)
        if self.fabric.world_size > 1:
            torch.distributed.all_reduce(stop)
        if stop > 0:
            raise self.interrupted()

    def interrupted(self) -> Interrupted:
        return Interrupted(self.signals.received or signal.SIGTERM, can_save=True)
