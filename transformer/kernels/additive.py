"""Additive scores in blocks, so that tanh(q + k) of all pairs is never in memory at once."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# Entries of tanh(q + k) held at a time (16 MiB in float32), or those of one query position where that is more.
BLOCK = 4 * 2**20


def _block(queries: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("bnqkh,nh->bnqk", (queries[:, :, :, None] + keys[:, :, None]).tanh(), weight)


def additive_scores(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    weight: Float[Tensor, "heads head_dim"],
) -> Float[Tensor, "batch heads queries keys"]:
    """vᵀ tanh(q + k) for every query and key (Bahdanau et al. 2015, appendix A.1.2).

    A block of queries at a time; backward computes each block again. Beside the scores themselves, at most three
    blocks of `BLOCK` entries (or of batch × heads × keys × head_dim, for one query position) are in memory.
    """
    length = max(1, BLOCK // max(1, keys.numel()))
    blocks = queries.split(length, dim=2)  # type: ignore[no-untyped-call]
    if not torch.is_grad_enabled():
        return torch.cat([_block(block, keys, weight) for block in blocks], dim=2)
    return torch.cat([checkpoint(_block, block, keys, weight, use_reentrant=False) for block in blocks], dim=2)
