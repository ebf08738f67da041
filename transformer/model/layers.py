"""The encoder's and the decoder's layer (Vaswani et al. 2017, figure 1): sublayers of attention and feed-forward, each
in an Add & Norm."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from transformer.kernels.dropout import Dropout
from transformer.model.attention import AttentionRecord, MultiHeadAttention, PositionBias
from transformer.model.config import AttentionConfig, FeedForwardConfig, ModelConfig
from transformer.model.kv_cache import LayerCache
from transformer.model.masks import SourceVisible, Visible
from transformer.model.positions import QueryKeyPositions, build_positions

States = Float[Tensor, "batch length dim"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = act(x W_1 + b_1) W_2 + b_2, the same at every position (equation 2); swiglu gates it (Shazeer 2020,
    equation 6)."""

    def __init__(self, dim: int, config: FeedForwardConfig) -> None:
        super().__init__()
        self.activation_name = "silu" if config.activation == "swiglu" else config.activation
        self.activation = ACTIVATIONS[self.activation_name]
        self.inner = nn.Linear(dim, config.dim)
        self.gate = nn.Linear(dim, config.dim) if config.activation == "swiglu" else None
        self.outer = nn.Linear(config.dim, dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: States) -> States:
        if self.gate is not None:
            inner = self.activation(self.gate(states)) * self.inner(states)
        else:
            inner = self.activation(self.inner(states))
        return self.outer(self.dropout(inner))


class AddNorm(nn.Module):
    """The residual connection and the norm around a sublayer ("Add & Norm" in figure 1).

    post (the paper): norm(x + dropout(sublayer(x))); pre (trains more steadily): x + dropout(sublayer(norm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm: nn.Module = nn.LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: States, sublayer: Callable[[Tensor], Tensor]) -> States:
        if self.pre:
            return states + self.dropout(sublayer(self.norm(states)))
        return self.norm(states + self.dropout(sublayer(states)))


def build_self_attention(config: ModelConfig, attention: AttentionConfig) -> MultiHeadAttention:
    """Self-attention, with the rotation of queries and keys if the model has rotary positions."""
    head_dim, _ = attention.head_dims(config.dim)
    rotation = build_positions(QueryKeyPositions, config.positions, head_dim, config.max_length)
    return MultiHeadAttention(config.dim, attention, rotation)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = build_self_attention(config, config.encoder.self_attention)
        self.feed_forward = FeedForward(config.dim, config.feed_forward)
        self.add_norm_self = AddNorm(config)
        self.add_norm_feed = AddNorm(config)

    def forward(
        self,
        states: States,
        visible: SourceVisible | None,
        position_bias: PositionBias | None = None,
        record: AttentionRecord | None = None,
    ) -> States:
        weights = record.encoder if record else None

        def self_attention(x: States) -> States:
            queries, key_values = self.self_attention.project(x)
            return self.self_attention.attend(queries, key_values, visible, position_bias, weights)

        states = self.add_norm_self(states, self_attention)
        return self.add_norm_feed(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, then cross-attention to the encoded source, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        cross = config.decoder.cross_attention
        self.self_attention = build_self_attention(config, config.decoder.self_attention)
        self.cross_attention = MultiHeadAttention(config.dim, cross) if cross else None
        self.feed_forward = FeedForward(config.dim, config.feed_forward)
        self.add_norm_self = AddNorm(config)
        if self.cross_attention is not None:
            self.add_norm_cross = AddNorm(config)
            if config.norm == "pre" and not self.cross_attention.score.uses_query:
                self.add_norm_cross.norm = nn.Identity()  # its output is not used, so a norm would get no gradient
        self.add_norm_feed = AddNorm(config)

    def init_cache(self, memory: Float[Tensor, "batch source dim"]) -> LayerCache:
        """Projects the keys and values of the encoded source, once for all steps."""
        source = self.cross_attention.project_kv(memory) if self.cross_attention is not None else None
        return LayerCache(self.self_attention.empty_cache(memory.size(0)), source)

    def forward(
        self,
        states: Float[Tensor, "rows length dim"],
        cache: LayerCache,
        visible: Visible | None,
        memory_visible: SourceVisible | None,
        offset: int = 0,
        position_bias: PositionBias | None = None,
        record: AttentionRecord | None = None,
    ) -> tuple[Float[Tensor, "rows length dim"], LayerCache]:
        """The first of `states` is at the position `offset`, after those in `cache`."""
        self_weights, cross_weights = (record.decoder, record.cross) if record else (None, None)
        target, source, cross = cache.target, cache.source, self.cross_attention

        def masked_self_attention(x: States) -> States:
            nonlocal target  # x is the sublayer's input, normalized if norm=pre: its keys can be computed only here
            queries, new = self.self_attention.project(x, offset)
            target = target.update(new)
            return self.self_attention.attend(queries, target.key_values, visible, position_bias, self_weights)

        states = self.add_norm_self(states, masked_self_attention)
        if cross is not None and source is not None:
            states = self.add_norm_cross(states, lambda x: cross(x, source, memory_visible, record=cross_weights))
        return self.add_norm_feed(states, self.feed_forward), LayerCache(target, source)
