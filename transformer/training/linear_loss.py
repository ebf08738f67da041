"""The projection to logits and the loss, a piece at a time: the logits of a whole batch are never in memory at once."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.training.cross_entropy import smoothed_cross_entropy

# Positions projected at a time, on a CPU and elsewhere.
CPU_POSITIONS, POSITIONS = 512, 16384

# Of logits (views × positions × vocabulary) and labels (positions): the loss at each position, and its gradient.
Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, states: Tensor, weight: Tensor, labels: Tensor, real: Tensor, loss: Loss) -> Tensor:
        device = states.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        projection, size = weight.to(kind), CPU_POSITIONS if device == "cpu" else POSITIONS
        total = torch.zeros((), device=states.device)
        # Both gradients are made here, where the logits are: backward only scales them.
        of_states, of_weight = torch.empty_like(states), torch.zeros_like(weight)
        for start in range(0, states.size(1), size):
            rows = slice(start, start + size)
            piece, counts = states[:, rows].to(kind), real[rows, None].to(kind)
            # Two dimensions: a product of three is slower.
            logits = (piece.flatten(0, 1) @ projection.T).view(*piece.shape[:2], -1)
            losses, gradient = loss(logits, labels[rows])
            total += (losses * real[rows]).sum()
            gradient = gradient.flatten(0, 1)
            of_states[:, rows] = (gradient @ projection).view_as(piece) * counts
            of_weight += gradient.T @ (piece * counts).flatten(0, 1)
        context.save_for_backward(of_states, of_weight)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        of_states, of_weight = context.saved_tensors
        return of_states * gradients[0], of_weight * gradients[0], None, None, None


def cross_entropy_loss(
    states: Float[Tensor, "batch target dim"],
    weight: Float[Tensor, "vocabulary dim"],
    labels: Int[Tensor, "batch target"],
    real: Bool[Tensor, "batch target"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The label-smoothed cross-entropy of the logits states · weightᵀ, summed over the positions that are `real`."""

    def loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        losses, gradient = smoothed_cross_entropy(logits[0], labels, smoothing)
        return losses, gradient[None]

    return projected_loss(states[None], weight, labels, real, loss)


def projected_loss(
    states: Float[Tensor, "views batch target dim"],
    weight: Float[Tensor, "vocabulary dim"],
    labels: Int[Tensor, "batch target"],
    real: Bool[Tensor, "batch target"],
    loss: Loss,
) -> Float[Tensor, ""]:
    """The sum of `loss` of the logits states · weightᵀ over the positions that are `real`."""
    total: Tensor = _ProjectedLoss.apply(states.flatten(1, 2), weight, labels.flatten(), real.flatten(), loss)  # type: ignore[no-untyped-call]
    return total
