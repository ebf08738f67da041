"""How a query is compared with a key: one small class per score function, one number per pair.

With q and k for the projected query and key:

    dot         qᵀk
    scaled_dot  qᵀk / √head_dim (Vaswani et al. 2017, equation 1)
    bilinear    qᵀWk (Luong et al. 2015, "general")
    concat      w · [q ; k], the form of the tutorials; not the "concat" of Luong et al. 2015, vᵀ tanh(W[q ; k]), which
                is the additive score here
    additive    vᵀ tanh(q + k) (Bahdanau et al. 2015; W and U of the paper are the projections of query and key)

To add one: a class here, and a line in `SCORES` of config.py.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.kernels.additive import additive_scores


class ConstantQuery(nn.Module):
    """The same trained vector in place of every query."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads * head_dim) * head_dim**-0.5)

    def forward(self, states: Float[Tensor, "rows length dim"]) -> Float[Tensor, "rows length width"]:
        return self.weight.expand(*states.shape[:2], -1)


class Score(nn.Module):
    """Base of all scores. Unless overridden a score is the dot product scale · f(q)ᵀ k."""

    uses_query = True  # False: a key has the same weight for every query, so no queries are projected

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.head_dim, self.scale = heads, head_dim, 1.0

    @property
    def is_dot_product(self) -> bool:
        """Whether a fused attention kernel can compute the score from f(q), k and the scale: true unless a class has
        an equation of its own in `forward`."""
        return type(self).forward is Score.forward

    def query_projection(self, dim: int, bias: bool) -> nn.Module:
        """The layer that turns a state into the queries of all heads."""
        if not self.uses_query:
            return ConstantQuery(self.heads, self.head_dim)
        return nn.Linear(dim, self.heads * self.head_dim, bias=bias)

    def transform(
        self, queries: Float[Tensor, "rows heads queries head_dim"]
    ) -> Float[Tensor, "rows heads queries head_dim"]:
        """f(q), applied before rotary positions, so that scores with them stay relative."""
        return queries

    def forward(
        self, queries: Float[Tensor, "batch heads queries head_dim"], keys: Float[Tensor, "batch heads keys head_dim"]
    ) -> Float[Tensor, "batch heads queries keys"]:
        return self.scale * queries @ keys.transpose(-2, -1)


class DotProduct(Score):
    """qᵀk."""


class ScaledDotProduct(Score):
    """qᵀk / √head_dim: its variance is 1 if that of the entries of q and k is 1, so that the softmax stays soft."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__(heads, head_dim)
        self.scale = head_dim**-0.5


class Bilinear(Score):
    """qᵀWk with one W per head. W starts as the identity / √head_dim, so this begins as the scaled dot product."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__(heads, head_dim)
        self.weight = nn.Parameter((torch.eye(head_dim) * head_dim**-0.5).repeat(heads, 1, 1))

    def transform(
        self, queries: Float[Tensor, "rows heads queries head_dim"]
    ) -> Float[Tensor, "rows heads queries head_dim"]:
        return queries @ self.weight


class Concat(Score):
    """w · [q ; k] = w₁ · q + w₂ · k. The query's half is the same for every key, so the softmax cancels it: every query
    gets the same weights. So there is no w₁, and w₂ is a `ConstantQuery` in the dot product with k."""

    uses_query = False


class Additive(Score):
    """vᵀ tanh(q + k) with one v per head."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__(heads, head_dim)
        self.weight = nn.Parameter(torch.randn(heads, head_dim) * head_dim**-0.5)

    def forward(
        self, queries: Float[Tensor, "batch heads queries head_dim"], keys: Float[Tensor, "batch heads keys head_dim"]
    ) -> Float[Tensor, "batch heads queries keys"]:
        return additive_scores(queries, keys, self.weight)
