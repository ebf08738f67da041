"""Additive scores in blocks, so that tanh(q + k) of all pairs is never in memory at once."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# The number of entries of tanh(q + k) in memory at a time (2 MiB in float32, which fits into a processor's cache); at
# least those of one query.
BLOCK = 2**19


def _blocks(queries: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """tanh(q + k), block by block: the slice of sentences, the slice of queries, and the block."""
    batch, _, length, _ = queries.shape
    entries_per_query = max(1, keys[:1].numel())  # entries for one query of one sentence
    sentences = max(1, BLOCK // (entries_per_query * length))
    count = max(1, BLOCK // (entries_per_query * sentences))
    for first_sentence in range(0, batch, sentences):
        for first_query in range(0, length, count):
            sentence_slice = slice(first_sentence, first_sentence + sentences)
            query_slice = slice(first_query, first_query + count)
            sums = queries[sentence_slice, :, query_slice, None] + keys[sentence_slice, :, None]
            yield sentence_slice, query_slice, sums.tanh_()


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, queries: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
        context.save_for_backward(queries, keys, weight)
        scores = queries.new_empty(*queries.shape[:3], keys.size(2))
        for sentence_slice, query_slice, hidden in _blocks(queries, keys):
            scores[sentence_slice, :, query_slice] = (hidden @ weight[:, None, :, None]).squeeze(-1)
        return scores

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, weight = context.saved_tensors
        queries_gradient, keys_gradient, weight_gradient = map(torch.zeros_like, (queries, keys, weight))
        for sentence_slice, query_slice, hidden in _blocks(queries, keys):
            gradient = gradients[0][sentence_slice, :, query_slice]
            weight_gradient += torch.einsum("bnqk,bnqkh->nh", gradient, hidden)
            # tanh' = 1 - tanh²; the weight, which is the same for all pairs, is multiplied at the end.
            hidden.square_().neg_().add_(1).mul_(gradient[..., None])
            queries_gradient[sentence_slice, :, query_slice] = hidden.sum(dim=3)
            keys_gradient[sentence_slice] += hidden.sum(dim=2)
        return queries_gradient * weight[:, None], keys_gradient * weight[:, None], weight_gradient


def additive_scores(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    weight: Float[Tensor, "heads head_dim"],
) -> Float[Tensor, "batch heads queries keys"]:
    """vᵀ tanh(q + k) for every query and key (Bahdanau et al. 2015, appendix A.1.2).

    Computed block by block, and again in backward. Besides the scores, queries, keys and their gradients, at most three
    blocks of `BLOCK` entries (or of heads × keys × head_dim, for one query of one sentence) are in memory.
    """
    if torch.compiler.is_compiling():  # a traced graph must not depend on the number of blocks
        return (
            torch.tanh(queries[:, :, :, None] + keys[:, :, None]) @ weight[:, None, :, None].to(queries.dtype)
        ).squeeze(-1)
    scores: Tensor = _AdditiveScores.apply(queries, keys, weight.to(queries.dtype))  # type: ignore[no-untyped-call]
    return scores
