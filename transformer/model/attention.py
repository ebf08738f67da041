"""Attention: every query looks at every key that is visible to it and takes a mean of their values."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from transformer.kernels.dropout import Dropout
from transformer.model.config import AttentionConfig
from transformer.model.positions import Rotary

# True in a mask means visible: the query may look at the key.
Visible = Bool[Tensor, "#batch #heads #queries keys"]
# The same for all heads and queries: which tokens of a padded source are real.
SourceVisible = Bool[Tensor, "sentences 1 1 source"]


def causal_visible(queries: int, keys: int, device: torch.device) -> Bool[Tensor, "1 1 queries keys"]:
    """Lets each of the last `queries` positions of `keys` see itself and what came before it, nothing later."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]


def attention_weights(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    visible: Visible | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """softmax(Q Kᵀ / √d_k), the share of each query's attention that goes to each key (Vaswani et al. 2017, eq. 1).

    Every query must see at least one key: a softmax over nothing is not a number.
    """
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.size(-1))
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    return scores.softmax(dim=-1)


class KeyValues(NamedTuple):
    """What queries look at, projected once: keys to be compared with, values to be taken."""

    keys: Float[Tensor, "batch heads keys head_dim"]
    values: Float[Tensor, "batch heads keys value_dim"]

    def extended(self, new: "KeyValues") -> "KeyValues":
        return KeyValues(torch.cat([self.keys, new.keys], dim=2), torch.cat([self.values, new.values], dim=2))

    def select(self, rows: Tensor) -> "KeyValues":
        return KeyValues(self.keys[rows], self.values[rows])


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (Vaswani et al. 2017, section 3.2.2); one class, three uses.

    The widths are free: `head_dim` for queries and keys, `value_dim` for values (both default to dim / heads).
    `rotary` is the number of positions to turn queries and keys for; 0: they are not turned.
    """

    def __init__(self, dim: int, config: AttentionConfig, rotary: int = 0) -> None:
        super().__init__()
        self.heads = config.heads
        self.head_dim = config.head_dim or dim // config.heads
        self.value_dim = config.value_dim or dim // config.heads
        self.query = nn.Linear(dim, self.heads * self.head_dim, bias=config.bias)
        self.key = nn.Linear(dim, self.heads * self.head_dim, bias=config.bias)
        self.value = nn.Linear(dim, self.heads * self.value_dim, bias=config.bias)
        self.output = nn.Linear(self.heads * self.value_dim, dim, bias=config.bias)
        self.dropout = Dropout(config.dropout)
        self.rotary = Rotary(self.head_dim, rotary) if rotary else None

    def keys_values(self, states: Float[Tensor, "batch keys dim"], offset: int = 0) -> KeyValues:
        """Projects the states to look at; `offset` is the position of the first one (rotary positions need it)."""
        batch, length, _ = states.shape
        keys = self.key(states).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        values = self.value(states).view(batch, length, self.heads, self.value_dim).transpose(1, 2)
        return KeyValues(self.rotary(keys, offset) if self.rotary else keys, values)

    def forward(
        self,
        states: Float[Tensor, "rows queries dim"],
        memory: KeyValues,
        visible: Visible | None = None,
        offset: int = 0,
        record: list[Tensor] | None = None,
    ) -> Float[Tensor, "rows queries dim"]:
        """Lets each state look at `memory`; with `record`, the weights (batch × heads × queries × keys) are kept there.

        Rows that share a sentence (the hypotheses of a beam) may share one row of `memory`: they are then further
        queries of that sentence, so keys and values are projected and stored once a sentence.
        """
        rows, length, _ = states.shape
        queries = self.query(states).view(len(memory.keys), -1, self.heads, self.head_dim).transpose(1, 2)
        if self.rotary:
            queries = self.rotary(queries, offset)
        if record is not None:
            weights = attention_weights(queries, memory.keys, visible)
            record.append(weights)
            heads = self.dropout(weights) @ memory.values
        else:
            dropout = self.dropout.p if self.training else 0.0
            heads = functional.scaled_dot_product_attention(queries, *memory, attn_mask=visible, dropout_p=dropout)
        return self.output(heads.transpose(1, 2).reshape(rows, length, self.heads * self.value_dim))
