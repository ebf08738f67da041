"""The layers of `FastTransformer`: those of `model.layers` and `model.attention`, in fewer and larger operations.

States are [rows, dim]: all tokens or hypotheses of all sentences one below the other, as matrix multiplications take
them. Masks are added to scores, in the operation that makes these: 0 where attention may look, -inf elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.model import layers
from transformer.model.attention import MultiHeadAttention, softmax
from transformer.model.packed import PackedLinear, PackedMatmul, pack_weight

States = Float[Tensor, "rows dim"]
# The vectors of every head.
Heads = Float[Tensor, "sentences heads length width"]
Keys = Float[Tensor, "sentences heads width keys"]  # transposed
Values = Float[Tensor, "sentences heads keys value_width"]
ScoreMask = Float[Tensor, "sentences 1 #length keys"]


def packed_matmul(linear: nn.Module) -> PackedMatmul:
    """Of a layer of which `FastTransformer.supports` has seen that it is packed, and unchanged."""
    return cast(PackedMatmul, cast(PackedLinear, linear).packed_matmul())


def stacked_matmul(linears: Sequence[nn.Module], heads: int) -> PackedMatmul:
    """Several projections as one matrix multiplication. Its outputs: those of the first head, those of the second, …"""

    def stack(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([part.detach().view(heads, -1, *part.shape[1:]) for part in parts], dim=1).flatten(0, 1)

    weight = stack([cast(nn.Linear, linear).weight for linear in linears])
    biases = [linear.bias for linear in linears if isinstance(linear.bias, Tensor)]  # all have one, or none
    return PackedMatmul(pack_weight(weight), stack(biases) if biases else None)


def split_sentences_and_heads(projected: Float[Tensor, "rows all_heads"], sentences: int, heads: int) -> Heads:
    return projected.view(sentences, -1, heads, projected.size(1) // heads).transpose(1, 2)


def attend(
    queries: Heads, keys: Keys, values: Values, scale: float, score_mask: ScoreMask | None
) -> Float[Tensor, "rows all_heads"]:
    """softmax(scale · Q Kᵀ + score_mask) V of every head."""
    sentences, heads, length, _ = queries.shape
    if score_mask is None:
        # Added 0 times. The same operation, so that bfloat16 is rounded alike with padding and without.
        added, times = queries.new_zeros(1), 0
    else:
        added, times = score_mask.expand(-1, heads, -1, -1).flatten(0, 1), 1
    scores = torch.baddbmm(added, queries.flatten(0, 1), keys.flatten(0, 1), beta=times, alpha=scale)
    head_outputs = torch.bmm(softmax(scores), values.flatten(0, 1))
    return head_outputs.view(sentences, heads, length, -1).transpose(1, 2).reshape(sentences * length, -1)


class Norm:
    """The norm of a sublayer: before it (pre), or after its residual connection (post)."""

    def __init__(self, add_norm: layers.AddNorm) -> None:
        norm = cast(nn.LayerNorm, add_norm.norm)
        self.pre, self.arguments = add_norm.pre, (norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def before(self, states: States) -> States:
        return torch.layer_norm(states, *self.arguments) if self.pre else states

    def after(self, states: States) -> States:
        return states if self.pre else torch.layer_norm(states, *self.arguments)


class FastFeedForward:
    """With its norm and residual connection, as all sublayers here."""

    def __init__(self, feed_forward: layers.FeedForward, activation: str, norm: Norm) -> None:
        self.inner, self.outer = packed_matmul(feed_forward.inner), packed_matmul(feed_forward.outer)
        self.gate = None if feed_forward.gate is None else packed_matmul(feed_forward.gate)
        self.activation, self.norm = activation, norm

    def __call__(self, states: States) -> States:
        inputs = self.norm.before(states)
        if self.gate is not None:
            inner = self.inner.times(inputs, self.gate(inputs, "silu"))
        else:
            inner = self.inner(inputs, self.activation)
        return self.norm.after(self.outer.plus(inner, states))


class SelfAttention:
    """One matrix multiplication computes query, key and value."""

    def __init__(self, attention: MultiHeadAttention, norm: Norm) -> None:
        self.heads, self.scale, self.norm = attention.heads, attention.score.scale, norm
        self.widths = [attention.head_dim, attention.head_dim, attention.value_dim]
        self.projection = stacked_matmul([attention.query, attention.key, attention.value], self.heads)
        self.output = packed_matmul(attention.output)

    def project(self, states: States, sentences: int) -> Sequence[Heads]:
        """Queries, keys and values."""
        projected = self.projection(self.norm.before(states))
        return torch.split(split_sentences_and_heads(projected, sentences, self.heads), self.widths, dim=3)

    def __call__(
        self, states: States, queries: Heads, keys: Keys, values: Values, score_mask: ScoreMask | None
    ) -> States:
        return self.norm.after(self.output.plus(attend(queries, keys, values, self.scale, score_mask), states))


class Source(NamedTuple):
    """The keys (transposed) and values of the encoded source in one layer, and its padding mask."""

    keys: Float[Tensor, "sentences heads head_dim source"]
    values: Float[Tensor, "sentences heads source value_dim"]
    score_mask: ScoreMask | None

    def select(self, sentences: Tensor) -> Source:
        score_mask = None if self.score_mask is None else self.score_mask[sentences]
        return Source(self.keys[sentences], self.values[sentences], score_mask)


class CrossAttention:
    """Looks at the encoded source, whose keys and values are projected once for all steps."""

    def __init__(self, attention: MultiHeadAttention, norm: Norm) -> None:
        self.heads, self.scale, self.norm = attention.heads, attention.score.scale, norm
        self.query, self.key = packed_matmul(attention.query), packed_matmul(attention.key)
        self.value, self.output = packed_matmul(attention.value), packed_matmul(attention.output)

    def source(self, memory: States, sentences: int, score_mask: ScoreMask | None) -> Source:
        projected = self.key(memory), self.value(memory)
        keys, values = (split_sentences_and_heads(part, sentences, self.heads) for part in projected)
        # Contiguous once, where the multiplications would copy them at every step.
        return Source(keys.transpose(2, 3).contiguous(), values.contiguous(), score_mask)

    def __call__(self, states: States, source: Source) -> States:
        queries = split_sentences_and_heads(self.query(self.norm.before(states)), len(source.values), self.heads)
        head_outputs = attend(queries, source.keys, source.values, self.scale, source.score_mask)
        return self.norm.after(self.output.plus(head_outputs, states))


class FastEncoderLayer:
    def __init__(self, layer: layers.EncoderLayer, activation: str) -> None:
        self.self_attention = SelfAttention(layer.self_attention, Norm(layer.add_norm_self))
        self.feed_forward = FastFeedForward(layer.feed_forward, activation, Norm(layer.add_norm_feed))

    def __call__(self, states: States, sentences: int, score_mask: ScoreMask | None) -> States:
        queries, keys, values = self.self_attention.project(states, sentences)
        return self.feed_forward(self.self_attention(states, queries, keys.transpose(2, 3), values, score_mask))


class Target(NamedTuple):
    """The keys (transposed) and values of the target in one layer: the places of the new ones, and all up to these."""

    new_keys: Float[Tensor, "sentences heads head_dim hypotheses"]
    new_values: Float[Tensor, "sentences heads hypotheses value_dim"]
    keys: Float[Tensor, "sentences heads head_dim target"]
    values: Float[Tensor, "sentences heads target value_dim"]


class FastDecoderLayer:
    def __init__(self, layer: layers.DecoderLayer, activation: str) -> None:
        self.self_attention = SelfAttention(layer.self_attention, Norm(layer.add_norm_self))
        cross = layer.cross_attention
        self.cross_attention = None if cross is None else CrossAttention(cross, Norm(layer.add_norm_cross))
        self.feed_forward = FastFeedForward(layer.feed_forward, activation, Norm(layer.add_norm_feed))

    def source(self, memory: States, sentences: int, score_mask: ScoreMask | None) -> Source | None:
        return None if self.cross_attention is None else self.cross_attention.source(memory, sentences, score_mask)

    def __call__(self, states: States, target: Target, source: Source | None, score_mask: ScoreMask | None) -> States:
        queries, keys, values = self.self_attention.project(states, len(target.values))
        target.new_keys.copy_(keys.transpose(2, 3))
        target.new_values.copy_(values)
        states = self.self_attention(states, queries, target.keys, target.values, score_mask)
        if self.cross_attention is not None and source is not None:
            states = self.cross_attention(states, source)
        return self.feed_forward(states)
