"""Numbers that all processes of a run share after each step: the sums of their losses, and whether one has to stop.

With an NVIDIA GPU they are read one step later, so that the program need not wait for it; elsewhere at once.
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
    """Sums over the processes, the check that they are finite, the run's clock, and signals."""

    def __init__(
        self,
        fabric: Fabric,
        signals: SignalHandler,
        trainer: TrainerSettings,
        save_every_minutes: float | None,
        training_pairs: Split,
    ) -> None:
        self.fabric, self.signals, self.trainer, self.training_pairs = fabric, signals, trainer, training_pairs
        self.save_every_minutes, self.max_seconds = save_every_minutes, trainer.max_seconds
        self.is_asked_to_stop = self.is_time_to_save = False
        self.share_of_time = 0.0  # the share of trainer.max_time that is used
        self._seconds_before, self._started, self._saved = 0.0, time.monotonic(), time.monotonic()
        # On a GPU, for the last step: its numbers, a function that waits until they are copied, and its update.
        self._pending: tuple[Tensor, Callable[[], None], Update] | None = None

    def start(self, seconds_before: float) -> None:
        """Starts the clock; a resumed run has already used `seconds_before`."""
        self._seconds_before, self._started, self._saved = seconds_before, time.monotonic(), time.monotonic()
        if self.max_seconds:
            self.share_of_time = seconds_before / self.max_seconds

    @property
    def seconds_used(self) -> float:
        """The seconds that the run has used so far."""
        return self._seconds_before + time.monotonic() - self._started

    def note_saved(self) -> None:
        self._saved, self.is_time_to_save = time.monotonic(), False

    def _flags(self) -> list[float]:
        """Whether this process was asked to stop; and, only in the first process, whether a checkpoint is due by the
        clock, and the share of the time that is used."""
        first, minutes = self.fabric.is_global_zero, (time.monotonic() - self._saved) / 60
        return [
            float(self.signals.received is not None),
            float(first and self.save_every_minutes is not None and minutes >= self.save_every_minutes),
            self.seconds_used / self.max_seconds if first and self.max_seconds else 0.0,
        ]

    def _heed(self, stop: float, save: float, share_of_time: float) -> None:
        self.is_asked_to_stop, self.is_time_to_save, self.share_of_time = stop > 0, save > 0, share_of_time

    def sum_over_processes(self, numbers: Tensor) -> Tensor:
        """The sums of these numbers, and of the `_flags`, over all processes."""
        flags = torch.tensor(self._flags(), pin_memory=numbers.is_cuda).to(numbers.device, non_blocking=True)
        sums = torch.cat([numbers, flags])
        if self.fabric.world_size > 1:  # not fabric.all_reduce, whose barrier waits for the device
            torch.distributed.all_reduce(sums)
        return sums

    def check(self, sums: Tensor, norm: Tensor, update: Update) -> None:
        """Raises NonFiniteError before an update that would spoil the weights: if the objective (the first of the
        `sums`) or the norm of the gradient is not finite. On an NVIDIA GPU this is seen at the next step."""
        numbers = torch.cat([sums, norm[None].float()])
        if not numbers.is_cuda:
            self._check(numbers.tolist(), update)
            return
        copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True).copy_(numbers, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        self.check_pending()
        self._pending = copy, event.synchronize, update

    def check_pending(self) -> None:
        """Checks the last step if that was not done yet, for example before a checkpoint."""
        pending, self._pending = self._pending, None
        if pending is not None:
            numbers, wait, update = pending
            wait()
            self._check(numbers.tolist(), update)

    def _check(self, numbers: list[float], update: Update) -> None:
        loss, norm, flags = numbers[0], numbers[-1], numbers[-4:-1]
        self._heed(*flags)
        # fp16's scaler skips an update whose gradient is not finite, lowers its scale and continues.
        is_scaled = self.trainer.precision == "16-mixed"
        if not math.isfinite(loss) or not (is_scaled or math.isfinite(norm)):
            raise nonfinite_error(update, norm, self.training_pairs, can_save=self.fabric.device.type != "cuda")

    def stop_if_asked(self) -> None:
        """Looks at clock and signals, and raises Interrupted in all processes if one of them was asked to stop. Called
        between two parts of a validation, and at the end."""
        sums = self.sum_over_processes(torch.zeros(0, device=self.fabric.device))
        self._heed(*sums.tolist())
        if self.is_asked_to_stop:
            raise self.interrupted()

    def interrupted(self) -> Interrupted:
        # If another process has received the signal, it is not known here which signal it was.
        return Interrupted(self.signals.received or signal.SIGTERM, can_save=True)
