"""The masks of attention. True means visible: the query may look at the key. (A boolean mask of nn.MultiheadAttention
means the opposite: there True is hidden.)"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

# `all_queries`: the queries of all hypotheses of a sentence, one hypothesis after the other.
Visible = Bool[Tensor, "#batch #heads #all_queries keys"]
# The padding mask as attention takes it: the same for all heads and queries.
SourceVisible = Bool[Tensor, "batch 1 1 source"]


def padding_mask(
    ids: Int[Tensor, "batch length"], pad: int, has_padding: bool | None = None
) -> Bool[Tensor, "batch length"] | None:
    """The padding mask: True where an id is not `pad`; None if there is no padding, so that no mask is applied.

    If `has_padding` is given, the program need not wait for the GPU to compute it.
    """
    visible = ids != pad
    if has_padding is None:
        has_padding = not bool(visible.all())
    return visible if has_padding else None


def causal_mask(queries: int, keys: int, device: torch.device) -> Bool[Tensor, "1 1 queries keys"]:
    """The causal mask: each of the last `queries` of `keys` positions sees itself and those before it."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]
