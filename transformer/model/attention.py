"""Attention: every query looks at every key that is visible to it and takes a mean of their values."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from transformer.model.additive import additive_scores
from transformer.model.config import AttentionConfig
from transformer.model.dropout import Dropout
from transformer.model.positions import Rotary

# True in a mask means visible: the query may look at the key.
Visible = Bool[Tensor, "#sentences #heads #looking keys"]
# The same for all heads and queries: which tokens of a padded source are real.
SourceVisible = Bool[Tensor, "sentences 1 1 source"]


def causal_visible(queries: int, keys: int, device: torch.device) -> Bool[Tensor, "1 1 queries keys"]:
    """Lets each of the last `queries` positions of `keys` see itself and what came before it, nothing later."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]


def attention_weights(
    scores: Float[Tensor, "batch heads queries keys"], visible: Visible | None = None
) -> Float[Tensor, "batch heads queries keys"]:
    """The share of each query's attention that goes to each key: a softmax over the visible ones.

    Every query must see at least one key: a softmax over nothing is not a number.
    """
    return (scores if visible is None else torch.where(visible, scores, -math.inf)).softmax(dim=-1)


def attention(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    values: Float[Tensor, "batch heads keys value_dim"],
    visible: Visible | None = None,
    scale: float = 1.0,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """softmax(scale · Q Kᵀ) V (Vaswani et al. 2017, eq. 1, where scale = 1/√d_k), written out."""
    return attention_weights(scale * queries @ keys.transpose(-2, -1), visible) @ values


class KeyValues(NamedTuple):
    """What queries look at, projected once: keys to be compared with, values to be taken."""

    keys: Float[Tensor, "batch heads keys head_dim"]
    values: Float[Tensor, "batch heads keys value_dim"]

    def appended(self, new: "KeyValues", seen: int) -> tuple["KeyValues", "KeyValues"]:
        """Writes `new` behind the first `seen`, which do not move: all of them, and the same with room for more."""
        if not seen:
            return new, new
        end, room = seen + new.keys.size(2), self
        if end > self.keys.size(2):  # twice as much is made
            room = KeyValues(*(old.new_empty(*old.shape[:2], 2 * end, old.size(3)) for old in self))
            for larger, old in zip(room, self, strict=True):
                larger[:, :, :seen] = old[:, :, :seen]
        for all_of_them, latest in zip(room, new, strict=True):
            all_of_them[:, :, seen:end] = latest
        return KeyValues(room.keys[:, :, :end], room.values[:, :, :end]), room

    def select(self, sentences: Tensor) -> "KeyValues":
        return KeyValues(self.keys[sentences], self.values[sentences])


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (Vaswani et al. 2017, section 3.2.2); one class, three uses.

    The widths are free: `head_dim` for queries and keys, `value_dim` for values (both default to dim / heads). `score`
    compares a query q with a key k, both projected:

        dot         qᵀk
        scaled_dot  qᵀk / √head_dim
        bilinear    qᵀWk ("general" in Luong et al. 2015), W starting as the identity / √head_dim
        concat      w · [q ; k]: the query's half is the same for all keys and cancels in the softmax, so it is not made
        additive    vᵀ tanh(q + k) (Bahdanau et al. 2015)

    All but additive are products with a changed query. `rotary` is the number of positions to turn queries and keys
    for (0: they are not turned); products then depend on distances only, additive scores on positions too.
    """

    def __init__(self, dim: int, config: AttentionConfig, rotary: int = 0) -> None:
        super().__init__()
        self.score, self.heads = config.score, config.heads
        self.head_dim = config.head_dim or dim // config.heads
        self.value_dim = config.value_dim or dim // config.heads
        self.scale = self.head_dim**-0.5 if config.score == "scaled_dot" else 1.0
        if config.score != "concat":
            self.query = nn.Linear(dim, self.heads * self.head_dim, bias=config.bias)
        self.key = nn.Linear(dim, self.heads * self.head_dim, bias=config.bias)
        self.value = nn.Linear(dim, self.heads * self.value_dim, bias=config.bias)
        self.output = nn.Linear(self.heads * self.value_dim, dim, bias=config.bias)
        if config.score == "bilinear":
            start = torch.eye(self.head_dim) * self.head_dim**-0.5
            self.score_weight = nn.Parameter(start.repeat(self.heads, 1, 1))
        elif config.score in ("concat", "additive"):
            self.score_weight = nn.Parameter(torch.randn(self.heads, self.head_dim) * self.head_dim**-0.5)
        self.dropout = Dropout(config.dropout)
        self.rotary = Rotary(self.head_dim, rotary) if rotary else None

    def keys_values(
        self, states: Float[Tensor, "rows keys dim"], offset: int = 0, sentences: int | None = None
    ) -> KeyValues:
        """Projects the states to look at; `offset` is the position of the first one (rotary positions need it).

        With `sentences`, rows of the same sentence are put together: more keys of fewer sentences.
        """
        keys = _heads(self.key(states), self.heads)
        keys = self.rotary(keys, offset) if self.rotary else keys
        values, together = _heads(self.value(states), self.heads), sentences or len(states)
        # Whole in memory once, where a product would copy them at every step.
        return KeyValues(_together(keys, together).contiguous(), _together(values, together).contiguous())

    def nothing(self, sentences: int) -> KeyValues:
        """Where each sentence's keys and values will stand."""
        like = self.key.weight.new_empty
        return KeyValues(like(sentences, self.heads, 0, self.head_dim), like(sentences, self.heads, 0, self.value_dim))

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
        queries = self._queries(states, len(memory.keys), offset)
        # On a CPU plain products are faster; in training `machine.attention` may ask for torch's kernel all the same.
        fused = torch.is_grad_enabled() and torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]
        plain = states.device.type == "cpu" and not fused
        if record is None and self.score != "additive" and not plain:
            dropout = self.dropout.p if self.training else 0.0
            heads = functional.scaled_dot_product_attention(queries, *memory, visible, dropout, scale=self.scale)
        else:
            if self.score == "additive":
                scores = additive_scores(queries, memory.keys, self.score_weight)
            else:
                scores = self.scale * queries @ memory.keys.transpose(-2, -1)
            weights = attention_weights(scores, visible)
            if record is not None:
                record.append(weights)
            heads = self.dropout(weights) @ memory.values
        return self.output(heads.transpose(1, 2).reshape(rows, length, self.heads * self.value_dim))

    def _queries(
        self, states: Float[Tensor, "rows length dim"], sentences: int, offset: int
    ) -> Float[Tensor, "sentences heads queries head_dim"]:
        """What is compared with the keys: projected states, or with concat the same vector everywhere."""
        if self.score == "concat":
            queries = self.score_weight[None, :, None].expand(len(states), -1, states.size(1), -1)
        else:
            queries = _heads(self.query(states), self.heads)
        if self.score == "bilinear":
            queries = queries @ self.score_weight
        return _together(self.rotary(queries, offset) if self.rotary else queries, sentences)


def _heads(projected: Float[Tensor, "rows length all_heads"], heads: int) -> Float[Tensor, "rows heads length width"]:
    return projected.view(*projected.shape[:2], heads, -1).transpose(1, 2)


def _together(vectors: Float[Tensor, "rows heads length width"], sentences: int) -> Float[Tensor, "_ heads _ width"]:
    """Puts the vectors of a sentence's rows one after the other."""
    if len(vectors) == sentences:
        return vectors
    return vectors.view(sentences, -1, *vectors.shape[1:]).transpose(1, 2).flatten(2, 3)
