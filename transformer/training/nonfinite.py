"""Ends training before an update by a loss or gradient that is not finite, and says which batch it came from."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from lightning import Trainer
from torch import Tensor

from transformer.data.batching import Batch


class NonFiniteError(ValueError):
    """An update that would have spoiled the weights, and was not made.

    `seen_late`: steps have been counted after it, whose updates were not made either.
    """

    def __init__(self, message: str, seen_late: bool) -> None:
        super().__init__(message)
        self.seen_late = seen_late


@dataclass
class Step:
    """One update: its batches as (number in the epoch, numbers of its pairs, loss), the norm of the gradient, and
    whether all of it is finite."""

    number: int
    epoch: int
    learning_rate: float
    batches: list[tuple[int, Tensor, Tensor]]
    norm: Tensor
    finite: Tensor


def _describe(step: Step, trainer: Trainer) -> str:
    """What was not finite, and in which batches: those of all processes, since any of them may have caused it."""
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    local_batches = [
        (number, [data.examples("train").pair_number(step.epoch, pair) for pair in pairs.tolist()], loss.item())
        for number, pairs, loss in step.batches
    ]
    shares: list[Any] = [local_batches]
    if trainer.world_size > 1:
        shares = [None] * trainer.world_size
        torch.distributed.all_gather_object(shares, local_batches)
    batches = [batch for share in shares for batch in share]
    bad = [batch for batch in batches if not math.isfinite(batch[2])]
    what = f"the loss is {bad[0][2]}" if bad else f"the norm of the gradient is {step.norm.item()}"
    where = "; ".join(
        f"batch {number} of epoch {step.epoch} (training pairs {', '.join(map(str, numbers[:10]))}"
        f"{', …' if len(numbers) > 10 else ''})"
        for number, numbers, _ in (bad or batches)[:4]
    )
    return (
        f"{what} at step {step.number}, {where}, learning rate {step.learning_rate:.3g}: this update was not made; try "
        "a lower training.learning_rate or more training.warmup_steps"
    )


class NonFiniteGuard:
    """Raises NonFiniteError before an update whose loss or gradient is not finite, in all processes alike.

    The CPU looks at the results of `every` steps together, and before a validation: to look at each step's it would
    have to wait for the GPU. Until then the GPU's fused optimizer skips all updates from the first bad one on. (That of
    Apple's GPU does not, so there every step is looked at, as on a CPU.)
    """

    def __init__(self) -> None:
        self.every: int | None = None
        self.batches: list[tuple[int, Tensor, Tensor]] = []
        self.steps: list[Step] = []
        self.good: Tensor | bool = True  # all of `steps`

    def add(self, number: int, batch: Batch, loss: Tensor) -> None:
        self.batches.append((number, batch.indices, loss.detach()))

    def check(self, trainer: Any, optimizer: torch.optim.Optimizer, loss: Tensor, norm: Tensor) -> None:
        """`loss` is the sum over the step's batches and all processes, `norm` that of the gradient to be applied."""
        # fp16's scaler lowers the scale after a gradient that is not finite, leaves out that update and goes on.
        scaled = trainer.precision == "16-mixed"
        finite = loss.isfinite() if scaled else loss.isfinite() & norm.isfinite()
        rate = float(optimizer.param_groups[0]["lr"])
        self.steps.append(Step(trainer.global_step, trainer.current_epoch, rate, self.batches, norm, finite))
        self.batches = []
        if self.every is None:
            can_skip = all(group.get("fused") for group in optimizer.param_groups)
            self.every = max(1, trainer.log_every_n_steps) if can_skip and norm.device.type == "cuda" else 1
        if len(self.steps) >= self.every:
            self.flush(trainer)
        else:
            self.good = self.good & finite
            optimizer.found_inf = (~self.good).float()  # type: ignore[attr-defined]

    def flush(self, trainer: Trainer) -> None:
        """Looks at all steps since the last time."""
        steps, self.steps, self.good = self.steps, [], True
        all_finite = torch.stack([step.finite for step in steps]).tolist() if steps else []
        for step, finite in zip(steps, all_finite, strict=True):
            if not finite:
                raise NonFiniteError(_describe(step, trainer), seen_late=step.number != trainer.global_step)
