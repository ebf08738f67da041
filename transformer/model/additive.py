"""Additive scores in blocks, so that tanh(q + k) of all pairs is never in memory at once."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# Entries of tanh(q + k) held at a time (2 MiB in float32: a processor's cache holds them), or those of one query where
# that is more.
BLOCK = 2**19


def _blocks(queries: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """tanh(q + k) for some sentences and some of their queries at a time."""
    (batch, _, length, _), pairs = queries.shape, max(1, keys[:1].numel())
    sentences = max(1, BLOCK // (pairs * length))
    some = max(1, BLOCK // (pairs * sentences))
    for row in range(0, batch, sentences):
        for start in range(0, length, some):
            rows, columns = slice(row, row + sentences), slice(start, start + some)
            yield rows, columns, (queries[rows, :, columns, None] + keys[rows, :, None]).tanh_()


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, queries: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(queries, keys, weight)
        scores = queries.new_empty(*queries.shape[:3], keys.size(2))
        for rows, columns, hidden in _blocks(queries, keys):
            scores[rows, :, columns] = (hidden @ weight[:, None, :, None]).squeeze(-1)
        return scores

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, weight = context.saved_tensors
        of_queries, of_keys, of_weight = (torch.zeros_like(tensor) for tensor in (queries, keys, weight))
        for rows, columns, hidden in _blocks(queries, keys):
            gradient = gradients[0][rows, :, columns]
            of_weight += torch.einsum("bnqk,bnqkh->nh", gradient, hidden)
            # tanh' = 1 - tanh²; the weight is the same for all pairs: it comes last.
            hidden.square_().neg_().add_(1).mul_(gradient[..., None])
            of_queries[rows, :, columns] = hidden.sum(dim=3)
            of_keys[rows] += hidden.sum(dim=2)
        return of_queries * weight[:, None], of_keys * weight[:, None], of_weight


def additive_scores(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    weight: Float[Tensor, "heads head_dim"],
) -> Float[Tensor, "batch heads queries keys"]:
    """vᵀ tanh(q + k) for every query and key (Bahdanau et al. 2015, appendix A.1.2).

    A block at a time, computed again in backward. Beside the scores, queries, keys and their gradients, at most three
    blocks of `BLOCK` entries (or of heads × keys × head_dim, for one query of one sentence) are in memory.
    """
    scores: Tensor = _AdditiveScores.apply(queries, keys, weight.to(queries.dtype))  # type: ignore[no-untyped-call]
    return scores
