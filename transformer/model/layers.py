"""The two kinds of layer, as in figure 1 of Vaswani et al. 2017: attention and feed-forward, each in an Add & Norm."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from transformer.model.attention import KeyValues, MultiHeadAttention, SourceVisible, Visible
from transformer.model.config import FeedForwardConfig, ModelConfig
from transformer.model.dropout import Dropout


class FeedForward(nn.Module):
    """FFN(x) = act(x W_1) W_2, the same at every position (section 3.3); swiglu gates it (Shazeer 2020, eq. 6)."""

    def __init__(self, dim: int, config: FeedForwardConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.inner = nn.Linear(dim, config.dim)
        self.gate = nn.Linear(dim, config.dim) if config.activation == "swiglu" else None
        self.outer = nn.Linear(config.dim, dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: Float[Tensor, "batch length dim"]) -> Float[Tensor, "batch length dim"]:
        inner = self.inner(states)
        if self.gate is not None:
            inner = functional.silu(self.gate(states)) * inner
        elif self.activation == "gelu":
            inner = functional.gelu(inner)
        else:
            inner = functional.relu(inner)
        return self.outer(self.dropout(inner))


class AddNorm(nn.Module):
    """The residual connection and the norm around a sublayer.

    post (the paper): norm(x + dropout(sublayer(x))); pre (trains more steadily): x + dropout(sublayer(norm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm: nn.Module = nn.LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)

    def before(self, states: Float[Tensor, "batch length dim"]) -> Float[Tensor, "batch length dim"]:
        """What the sublayer sees."""
        return self.norm(states) if self.pre else states

    def after(
        self, states: Float[Tensor, "batch length dim"], update: Float[Tensor, "batch length dim"]
    ) -> Float[Tensor, "batch length dim"]:
        """Adds what the sublayer made of it."""
        states = states + self.dropout(update)
        return states if self.pre else self.norm(states)


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        attention = config.encoder.self_attention
        self.self_attention = MultiHeadAttention(config.dim, attention, rotary=config.rotary)
        self.feed_forward = FeedForward(config.dim, config.feed_forward)
        self.add_norm_self = AddNorm(config)
        self.add_norm_feed = AddNorm(config)

    def forward(
        self,
        states: Float[Tensor, "batch length dim"],
        visible: SourceVisible | None,
        record: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch length dim"]:
        x = self.add_norm_self.before(states)
        x = self.self_attention(x, self.self_attention.keys_values(x), visible, record=record)
        states = self.add_norm_self.after(states, x)
        x = self.feed_forward(self.add_norm_feed.before(states))
        return self.add_norm_feed.after(states, x)


class LayerCache(NamedTuple):
    """What a decoder layer need not compute again: keys and values of the target (with room for more) and source."""

    target: KeyValues
    source: KeyValues | None

    def select(self, sentences: Tensor) -> "LayerCache":
        return LayerCache(self.target.select(sentences), self.source and self.source.select(sentences))


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        attention, cross = config.decoder.self_attention, config.decoder.cross_attention
        self.self_attention = MultiHeadAttention(config.dim, attention, rotary=config.rotary)
        self.cross_attention = MultiHeadAttention(config.dim, cross) if cross else None
        self.feed_forward = FeedForward(config.dim, config.feed_forward)
        self.add_norm_self = AddNorm(config)
        if cross:
            self.add_norm_cross = AddNorm(config)
            if config.norm == "pre" and cross.score == "concat":
                # A concat score looks at no query: a norm before it would never get a gradient.
                self.add_norm_cross.norm = nn.Identity()
        self.add_norm_feed = AddNorm(config)

    def start(self, memory: Float[Tensor, "batch source dim"]) -> LayerCache:
        """Projects the keys and values of the encoded source, once for all steps."""
        source = self.cross_attention.keys_values(memory) if self.cross_attention is not None else None
        return LayerCache(self.self_attention.nothing(len(memory)), source)

    def forward(
        self,
        states: Float[Tensor, "rows length dim"],
        cache: LayerCache,
        visible: Visible | None,
        source_visible: SourceVisible | None,
        offset: int = 0,
        seen: int = 0,
        record: tuple[list[Tensor], list[Tensor]] | None = None,
    ) -> tuple[Float[Tensor, "rows length dim"], LayerCache]:
        """`states` stand at the positions from `offset` on, behind the `seen` keys of `cache`; `record` keeps the
        weights of (self, cross) attention."""
        of_self, of_cross = record or (None, None)
        x = self.add_norm_self.before(states)
        new = self.self_attention.keys_values(x, offset, sentences=len(cache.target.keys))
        target, room = cache.target.appended(new, seen)
        x = self.self_attention(x, target, visible, offset, of_self)
        states = self.add_norm_self.after(states, x)
        if self.cross_attention is not None and cache.source is not None:
            x = self.add_norm_cross.before(states)
            x = self.cross_attention(x, cache.source, source_visible, record=of_cross)
            states = self.add_norm_cross.after(states, x)
        x = self.feed_forward(self.add_norm_feed.before(states))
        return self.add_norm_feed.after(states, x), LayerCache(room, cache.source)
