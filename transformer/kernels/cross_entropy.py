"""Cross-entropy with label smoothing that keeps one copy of the logits, not four."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Rows turned to float32 at a time: a piece that stays in the processor's cache.
ROWS = 64


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(torch.split(tensor, ROWS) for tensor in tensors), strict=True)


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        normalisers = torch.empty(len(logits), device=logits.device)
        total = torch.zeros((), device=logits.device)
        for rows, chosen, normaliser in _pieces(logits, labels, normalisers):
            rows = rows.float()
            torch.logsumexp(rows, dim=-1, out=normaliser)
            right = rows.gather(1, chosen[:, None]).sum()
            total += normaliser.sum() - (1 - smoothing) * right - smoothing * rows.mean(dim=-1).sum()
        context.save_for_backward(logits, labels, normalisers)
        context.smoothing = smoothing
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, normalisers = context.saved_tensors
        smoothing, [gradient] = context.smoothing, gradients
        result = torch.empty_like(logits)
        for rows, chosen, normaliser, out in _pieces(logits, labels, normalisers, result):
            # softmax − (1 − ε) one-hot − ε / V
            # Not in place at first: float32 rows are the logits themselves, which others may need.
            part = (rows.float() - normaliser[:, None]).exp_().sub_(smoothing / logits.size(-1))
            part.scatter_add_(1, chosen[:, None], torch.full_like(part[:, :1], smoothing - 1))
            out.copy_(part.mul_(gradient))
        return result, None, None


def smoothed_cross_entropy(
    logits: Float[Tensor, "positions vocabulary"], labels: Int[Tensor, " positions"], smoothing: float
) -> Float[Tensor, ""]:
    """The sum over positions of −Σ q log p (in nats), with q = (1 − ε) one-hot + ε / V (Szegedy et al. 2016).

    As torch.nn.functional.cross_entropy(reduction="sum"), computed in float32 whatever the logits' type is.
    """
    if logits.device.type != "cpu":
        return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=smoothing)
    total: Tensor = _SmoothedCrossEntropy.apply(logits, labels, smoothing)  # type: ignore[no-untyped-call]
    return total
