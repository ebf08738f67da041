"""What a model is made of, as plain typed data: it comes from YAML and goes into every checkpoint."""

from dataclasses import dataclass
from typing import Annotated, Literal

Score = Literal["dot", "scaled_dot", "bilinear", "concat", "additive"]
Positions = Literal["sinusoidal", "learned", "rotary", "none"]
Activation = Literal["relu", "gelu", "swiglu"]
# Bounds beside a type are checked where settings are read.
Size = Annotated[int, ">= 1"]
Rate = Annotated[float, ">= 0", "< 1"]


@dataclass(frozen=True)
class AttentionConfig:
    """One of the three attentions. `head_dim` and `value_dim` are per head; null means dim / heads."""

    heads: Size
    head_dim: Size | None
    value_dim: Size | None
    dropout: Rate
    bias: bool
    score: Score


@dataclass(frozen=True)
class FeedForwardConfig:
    """The position-wise network: its inner width, activation and the dropout inside it."""

    dim: Size
    activation: Activation
    dropout: Rate


@dataclass(frozen=True)
class EncoderConfig:
    layers: Size
    self_attention: AttentionConfig


@dataclass(frozen=True)
class DecoderConfig:
    """Without `cross_attention` (null) the decoder never sees the source: what is left is a language model."""

    layers: Size
    self_attention: AttentionConfig
    cross_attention: AttentionConfig | None


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the shape of a Transformer; `source_vocab_size` and `target_vocab_size` count ids.

    Raises ValueError, naming the key and both numbers, for a combination that cannot be built.
    """

    source_vocab_size: Size
    target_vocab_size: Size
    dim: Size
    positions: Positions
    max_length: Annotated[int, ">= 2", "<= 65536"]
    norm: Literal["pre", "post"]
    tied_embeddings: Literal["all", "target", "none"]
    dropout: Rate
    feed_forward: FeedForwardConfig
    encoder: EncoderConfig
    decoder: DecoderConfig

    def __post_init__(self) -> None:
        attentions = {
            "encoder.self_attention": self.encoder.self_attention,
            "decoder.self_attention": self.decoder.self_attention,
            "decoder.cross_attention": self.decoder.cross_attention,
        }
        for name, attention in attentions.items():
            if attention is None:
                continue
            if self.dim % attention.heads and None in (attention.head_dim, attention.value_dim):
                raise ValueError(
                    f"model.{name}.heads={attention.heads} does not divide model.dim={self.dim}: "
                    "choose another number of heads, or set head_dim and value_dim"
                )
            head_dim = attention.head_dim or self.dim // attention.heads
            if self.positions == "rotary" and "self" in name and head_dim % 2:
                raise ValueError(f"model.positions=rotary turns pairs: {name} has the odd head_dim {head_dim}")
        if self.positions == "sinusoidal" and self.dim % 2:
            raise ValueError(f"model.positions=sinusoidal needs an even model.dim, not {self.dim}")
        if self.tied_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "model.tied_embeddings=all needs one vocabulary for both languages (tokenizer.joint=true); "
                f"here they have {self.source_vocab_size} and {self.target_vocab_size} ids"
            )

    @property
    def rotary(self) -> int:
        """The number of positions to turn queries and keys for; 0 with other positions."""
        return self.max_length if self.positions == "rotary" else 0
