"""Cross-entropy with label smoothing, and its gradient at once: both need the same exponentials."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Rows looked at together on a CPU: as float32 they stay in its cache.
ROWS = 64


def in_pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Some rows of each at a time on a CPU, all at once elsewhere."""
    rows = ROWS if tensors[0].device.type == "cpu" else max(1, len(tensors[0]))
    return zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


def smoothed_cross_entropy(
    logits: Float[Tensor, "positions vocabulary"], labels: Int[Tensor, " positions"], smoothing: float
) -> tuple[Float[Tensor, " positions"], Float[Tensor, "positions vocabulary"]]:
    """−Σ q log p (in nats) with q = (1 − ε) one-hot + ε / V (Szegedy et al. 2016), and its gradient softmax − q.

    As torch.nn.functional.cross_entropy(reduction="none"), computed in float32 whatever the logits' type is.
    """
    losses, gradient = torch.empty(len(logits), device=logits.device), torch.empty_like(logits)
    for rows, label, loss, out in in_pieces(logits, labels[:, None], losses, gradient):
        rows = rows.to(torch.float32, copy=True)  # what follows overwrites it
        right, mean, top = rows.gather(1, label), rows.mean(dim=-1), rows.amax(dim=-1, keepdim=True)
        exponentials = rows.sub_(top).exp_()
        sums = exponentials.sum(dim=-1, keepdim=True)
        loss.copy_((top + sums.log() - (1 - smoothing) * right).squeeze(1) - smoothing * mean)
        part = exponentials.div_(sums).sub_(smoothing / logits.size(-1))
        out.copy_(part.scatter_add_(1, label, torch.full_like(right, smoothing - 1)))
    return losses, gradient
