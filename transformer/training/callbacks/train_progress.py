"""Where a run stands between two updates. All randomness is a function of it, so that a run resumes exactly."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from lightning import Callback, Trainer
from lightning.pytorch.callbacks import Timer

# Far more than any run has of anything: a checkpoint with a larger count was not written by this program.
Count = Annotated[int, ">= 0", "<= 1000000000000"]


def limited(batches: int, limit: int | float | None) -> int:
    """How many of an epoch's batches a limit of Lightning's leaves, which is a number of them or a share; None: all."""
    if limit is None:
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


@dataclass(frozen=True)
class TrainProgress:
    """Done so far: `epoch` epochs, `batch` of the `batches` of the current one, `total` batches of all epochs (counted
    in each process), `steps` updates. `validating`: a validation has begun here, and begins again when resumed."""

    epoch: Count
    batch: Count
    batches: Annotated[int, ">= 1", "<= 1000000000000"]
    total: Count
    steps: Count
    validating: bool

    @classmethod
    def of(cls, trainer: Trainer, validating: bool) -> "TrainProgress":
        """Where a trainer stands; within accumulated batches, where it stood before them: gradients are not saved."""
        loop: Any = trainer.fit_loop
        batches = trainer.num_training_batches
        epoch, batch = loop.epoch_progress.current.processed, loop.epoch_loop.batch_progress.current.completed
        total = loop.epoch_loop.batch_progress.total.completed
        if batch < batches:
            accumulated = batch % trainer.accumulate_grad_batches
            batch, total = batch - accumulated, total - accumulated
        if loop.epoch_progress.current.ready == epoch:  # the epoch has ended
            if batch == batches:
                batch = 0
            elif batch > 0:  # by the last step of the run, which Lightning counts as an end: the epoch may go on
                epoch -= 1
        return cls(epoch, batch, int(batches), total, trainer.global_step, validating)

    def reshard(self, batches: int, accumulated: int) -> "TrainProgress":
        """The nearest point where an epoch now has `batches` batches: the same share of it."""
        batch = self.batch * batches // self.batches // accumulated * accumulated
        return replace(self, batch=batch, batches=batches, total=self.steps * accumulated)

    def loop_state(self) -> dict[str, Any]:
        """The state of Lightning's fit loop at this point.

        Lightning's own depends on the hook that saves it (before or after a counter, a validation, the end of an
        epoch), and from some of those hooks it would resume at another point.
        """

        def count(done: int, in_progress: int = 0) -> dict[str, int]:
            return {"ready": done + in_progress, "started": done + in_progress, "processed": done, "completed": done}

        def counts(total: dict[str, int], current: dict[str, int] | None = None) -> dict[str, Any]:
            return {"total": total, "current": dict(current or total)}

        not_last, steps = {"is_last_batch": False}, counts({"ready": self.steps, "completed": self.steps})
        return {
            "epoch_progress": counts(count(self.epoch, in_progress=int(self.batch > 0))),
            # The step that a validation is logged at; StepCheckpoints corrects it before the next batch.
            "epoch_loop.state_dict": {"_batches_that_stepped": self.steps - 1},
            "epoch_loop.batch_progress": counts(count(self.total), count(self.batch)) | not_last,
            "epoch_loop.automatic_optimization.optim_progress": {
                "optimizer": {"step": steps, "zero_grad": counts(count(self.steps))}
            },
            "epoch_loop.val_loop.batch_progress": counts(count(0, in_progress=int(self.validating))) | not_last,
        }


def time_limit(trainer: Trainer) -> Timer | None:
    """What ends training by the clock, where trainer.max_time is set."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return next((callback for callback in callbacks if isinstance(callback, Timer)), None)


def share_of_time(trainer: Trainer) -> Callable[[], float] | None:
    """A function that gives the share of trainer.max_time that is over, the same in all processes; None without one."""
    if (timer := time_limit(trainer)) is None:
        return None

    def share() -> float:
        elapsed, left = timer.time_elapsed(), timer.time_remaining() or 0.0
        return float(trainer.strategy.broadcast(elapsed / max(elapsed + left, 1e-9)))

    return share


class SeedEachStep(Callback):
    """Seeds each training batch by its place (seed, process, epoch, batch), so that no random state need be saved.

    A saved state would be right only if all draws before it were repeated exactly, in every process and loader: one
    more draw in a validation, and the resumed run is a different one.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
        sequence = np.random.SeedSequence([self.seed, trainer.global_rank, trainer.current_epoch, batch_index])
        seed = int(sequence.generate_state(1, np.uint64)[0])
        # 10 µs; torch.manual_seed takes ten times as long to look for other devices.
        torch.default_generator.manual_seed(seed)
        if module.device.type != "cpu":
            torch.manual_seed(seed)
