"""The error that ends training if a loss or gradient is not finite: it names the batch."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer.data.encoded import Split


class NonFiniteError(RuntimeError):
    """An update would have spoiled the weights. `can_save`: the update was not made. (On a GPU this is seen one step
    later, when the weights are already spoiled, so they are not saved.)"""

    def __init__(self, message: str, can_save: bool) -> None:
        super().__init__(message)
        self.can_save = can_save


@dataclass(frozen=True)
class Update:
    """An update in one process, with its batches as (number in the epoch, indices of pairs, loss)."""

    step: int
    epoch: int
    learning_rate: float
    batches: list[tuple[int, Tensor, Tensor]]


def nonfinite_error(update: Update, norm: float, pairs: Split, can_save: bool) -> NonFiniteError:
    """The error names the number that is not finite, and the batches of all processes: any may have caused it."""
    local_batches = [
        (number, [pairs.pair_number(update.epoch, pair) for pair in indices.tolist()], loss.item())
        for number, indices, loss in update.batches
    ]
    shares: list[Any] = [local_batches]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        shares = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(shares, local_batches)
    batches = [batch for share in shares for batch in share]
    bad = [batch for batch in batches if not math.isfinite(batch[2])]
    what = f"the loss is {bad[0][2]}" if bad else f"the norm of the gradient is {norm}"
    where = "; ".join(
        f"batch {number} of epoch {update.epoch} (training pairs {', '.join(map(str, numbers[:10]))}"
        f"{', …' if len(numbers) > 10 else ''})"
        for number, numbers, _ in (bad or batches)[:4]
    )
    kept = "the weights before it are saved" if can_save else "the last checkpoint before it stays"
    return NonFiniteError(
        f"{what} at step {update.step}, {where}, learning rate {update.learning_rate:.3g}: {kept}; try a lower "
        "training.learning_rate or more training.warmup_steps",
        can_save,
    )
