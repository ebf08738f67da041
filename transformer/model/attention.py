"""Attention: every query looks at every key that is visible to it and takes a weighted mean of their values."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.kernels.dot_product import dot_product_attention, softmax, uses_torch
from transformer.kernels.dropout import Dropout
from transformer.model.config import SCORES, AttentionConfig
from transformer.model.kv_cache import KeyValues, KVCache
from transformer.model.masks import Visible

# Numbers added to the scores, which depend on the distance between query and key.
PositionBias = Float[Tensor, "#batch heads #all_queries keys"]


class AttentionRecord(NamedTuple):
    """Where `Transformer.encode` and `decode` put the attention weights. Give an empty list for each of the three
    attentions that you want (None: not wanted): every layer appends a tensor [batch, heads, queries, keys].

    encoder, decoder: their self-attention
    cross: the decoder's attention to the source
    """

    encoder: list[Tensor] | None = None
    decoder: list[Tensor] | None = None
    cross: list[Tensor] | None = None


def attention_weights(
    scores: Float[Tensor, "batch heads queries keys"], visible: Visible | None = None
) -> Float[Tensor, "batch heads queries keys"]:
    """The share of each query's attention that goes to each key: a softmax over the visible keys. (If a query sees no
    key, all get the same share.)"""
    return softmax(scores if visible is None else torch.where(visible, scores, torch.finfo(scores.dtype).min))


def attention(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    values: Float[Tensor, "batch heads keys value_dim"],
    visible: Visible | None = None,
    scale: float = 1.0,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """softmax(scale · Q Kᵀ) V (Vaswani et al. 2017, equation 1, with scale = 1/√d_k), written out.

    The equation by itself, for reading, tests and docs/tour.md; the model calls `MultiHeadAttention`.
    """
    return attention_weights(scale * queries @ keys.transpose(-2, -1), visible) @ values


def split_heads(
    projected: Float[Tensor, "rows length all_heads"], heads: int
) -> Float[Tensor, "rows heads length width"]:
    return projected.view(*projected.shape[:2], heads, -1).transpose(1, 2)


def group_by_sentence(
    vectors: Float[Tensor, "rows heads length width"], sentence_count: int
) -> Float[Tensor, "sentence_count heads all_length width"]:
    """Puts the vectors of all rows of a sentence one after the other: fewer rows, each longer. Raises ValueError if
    the sentences do not all have the same number of rows."""
    if vectors.size(0) == sentence_count:
        return vectors
    if vectors.size(0) % sentence_count:
        raise ValueError(
            f"{vectors.size(0)} rows cannot be shared out among the {sentence_count} sentences of the cache: a step "
            "takes equally many ids (hypotheses) for every sentence"
        )
    return vectors.view(sentence_count, -1, *vectors.shape[1:]).transpose(1, 2).flatten(2, 3)


class Projections(nn.Module):
    """Several linear layers, applied to the same states. (For translating, `inference.packing` joins them into one.)"""

    def forward(self, states: Float[Tensor, "rows length dim"], *layers: nn.Module) -> list[Tensor]:
        return [layer(states) for layer in layers]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (Vaswani et al. 2017, section 3.2.2); one class, three uses.

    Keys and values are projected first, by `project_kv`, so that a decoder can keep them; `forward` takes them. The
    widths are free: `head_dim` for queries and keys, `value_dim` for values (both default to dim / heads). `score` says
    how a query is compared with a key (see `scores`); `rotation` applies rotary positions to both.
    """

    def __init__(self, dim: int, config: AttentionConfig, rotation: nn.Module | None = None) -> None:
        super().__init__()
        self.heads = config.heads
        self.head_dim, self.value_dim = config.head_dims(dim)
        self.score = SCORES[config.score](self.heads, self.head_dim)
        self.query = self.score.query_projection(dim, config.bias)
        self.key = nn.Linear(dim, self.heads * self.head_dim, bias=config.bias)
        self.value = nn.Linear(dim, self.heads * self.value_dim, bias=config.bias)
        self.output = nn.Linear(self.heads * self.value_dim, dim, bias=config.bias)
        self.projections: nn.Module = Projections()
        self.dropout = Dropout(config.dropout)
        self.rotation = rotation

    def project_kv(self, states: Float[Tensor, "rows keys dim"], offset: int = 0) -> KeyValues:
        """Projects the states that queries will look at; `offset` is the position of the first state (for rotary)."""
        # Made contiguous here once; otherwise a matrix multiplication would copy them at every step.
        keys, values = self._split_kv(self.key(states), self.value(states), offset)
        return KeyValues(keys.contiguous(), values.contiguous())

    def project_queries(
        self, states: Float[Tensor, "rows queries dim"], offset: int = 0
    ) -> Float[Tensor, "rows heads queries head_dim"]:
        return self._split_queries(self.query(states), offset)

    def project(
        self, states: Float[Tensor, "rows length dim"], offset: int = 0
    ) -> tuple[Float[Tensor, "rows heads length head_dim"], KeyValues]:
        """Queries, keys and values of the same states, for self-attention."""
        queries, keys, values = self.projections(states, self.query, self.key, self.value)
        return self._split_queries(queries, offset), self._split_kv(keys, values, offset)

    def _split_queries(self, projected: Tensor, offset: int) -> Tensor:
        queries = self.score.transform(split_heads(projected, self.heads))
        return queries if self.rotation is None else self.rotation(queries, offset)

    def _split_kv(self, projected_keys: Tensor, projected_values: Tensor, offset: int) -> KeyValues:
        keys = split_heads(projected_keys, self.heads)
        if self.rotation is not None:
            keys = self.rotation(keys, offset)
        return KeyValues(keys, split_heads(projected_values, self.heads))

    def empty_cache(self, batch_size: int) -> KVCache:
        empty = self.key.weight.new_empty
        keys = empty(batch_size, self.heads, 0, self.head_dim)
        return KVCache(KeyValues(keys, empty(batch_size, self.heads, 0, self.value_dim)), 0)

    def forward(
        self,
        states: Float[Tensor, "rows queries dim"],
        key_values: KeyValues,
        visible: Visible | None = None,
        offset: int = 0,
        position_bias: PositionBias | None = None,
        record: list[Tensor] | None = None,
    ) -> Float[Tensor, "rows queries dim"]:
        """Lets each state attend to `key_values`; see `attend`."""
        return self.attend(self.project_queries(states, offset), key_values, visible, position_bias, record)

    def attend(
        self,
        queries: Float[Tensor, "rows heads queries head_dim"],
        key_values: KeyValues,
        visible: Visible | None = None,
        position_bias: PositionBias | None = None,
        record: list[Tensor] | None = None,
    ) -> Float[Tensor, "rows queries dim"]:
        """The output for each query, from the keys and values that are visible to it. `position_bias` is added to the
        scores; the weights [batch, heads, queries, keys] are appended to `record`.

        In a beam search a sentence has several rows of `queries`, one per hypothesis, but one row of the source's
        `key_values`: so its queries are put one after another into one row.

        `visible` is bool and broadcasts to [batch, heads, queries, keys], True where a query may look. Raises
        ValueError for a mask of another type: torch's kernel would add its numbers to the scores.
        """
        if visible is not None and visible.dtype != torch.bool:
            raise ValueError(f"a mask must be torch.bool, True where attention may look, not {visible.dtype}")
        rows, _, length, _ = queries.shape
        queries = group_by_sentence(queries, key_values.keys.size(0))
        if record is None and self.score.is_dot_product and uses_torch(queries):
            dropout = self.dropout.p if self.training else 0.0
            head_outputs = dot_product_attention(
                queries, *key_values, visible, position_bias, self.score.scale, dropout
            )
        else:
            scores = self.score(queries, key_values.keys)
            weights = attention_weights(scores if position_bias is None else scores + position_bias, visible)
            if record is not None:
                record.append(weights)
            head_outputs = self.dropout(weights) @ key_values.values
        return self.output(head_outputs.transpose(1, 2).reshape(rows, length, self.heads * self.value_dim))
