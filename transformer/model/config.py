"""What a model is made of, as plain typed data: it comes from YAML and goes into every checkpoint."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformer.model.positions import POSITIONS
from transformer.model.scores import SCORES

# Bounds and registries beside a type are checked where settings are read (transformer.config.from_dict).
Size = Annotated[int, ">= 1"]
Rate = Annotated[float, ">= 0", "< 1"]


@dataclass(frozen=True)
class AttentionConfig:
    """One of the three attentions. `head_dim` and `value_dim` are per head; None means dim / heads."""

    heads: Size
    head_dim: Size | None
    value_dim: Size | None
    dropout: Rate
    bias: bool
    score: Annotated[str, SCORES]

    def head_dims(self, dim: int) -> tuple[int, int]:
        """The width of a head's queries and keys, and that of its values, in a model of width `dim`."""
        return self.head_dim or dim // self.heads, self.value_dim or dim // self.heads


@dataclass(frozen=True)
class FeedForwardConfig:
    """The position-wise network: its inner width, its activation and the dropout inside it."""

    dim: Size
    activation: Literal["relu", "gelu", "swiglu"]
    dropout: Rate


@dataclass(frozen=True)
class EncoderConfig:
    layers: Size
    self_attention: AttentionConfig


@dataclass(frozen=True)
class DecoderConfig:
    """Without `cross_attention` (None) the decoder never sees the source: it is a language model."""

    layers: Size
    self_attention: AttentionConfig
    cross_attention: AttentionConfig | None


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the shape of a Transformer.

    Raises ValueError, naming the key and both numbers, for a combination that cannot be built.
    """

    source_vocab_size: Size
    target_vocab_size: Size
    dim: Size
    positions: Annotated[str, POSITIONS]
    max_length: Annotated[int, ">= 2", "<= 65536"]
    norm: Literal["pre", "post"]
    tied_embeddings: Literal["all", "target", "none"]
    dropout: Rate
    feed_forward: FeedForwardConfig
    encoder: EncoderConfig
    decoder: DecoderConfig

    def attentions(self) -> dict[str, AttentionConfig]:
        """The attentions that this model has, by their full names."""
        attentions = {
            "encoder.self_attention": self.encoder.self_attention,
            "decoder.self_attention": self.decoder.self_attention,
            "decoder.cross_attention": self.decoder.cross_attention,
        }
        return {name: attention for name, attention in attentions.items() if attention is not None}

    def __post_init__(self) -> None:
        for name, attention in self.attentions().items():
            if self.dim % attention.heads and None in (attention.head_dim, attention.value_dim):
                raise ValueError(
                    f"model.{name}.heads={attention.heads} does not divide model.dim={self.dim}: "
                    "choose another number of heads, or set head_dim and value_dim"
                )
            head_dim, _ = attention.head_dims(self.dim)
            if self.positions == "rotary" and name.endswith("self_attention") and head_dim % 2:
                raise ValueError(f"model.positions=rotary rotates pairs: {name} has the odd head_dim {head_dim}")
        if self.positions == "sinusoidal" and self.dim % 2:
            raise ValueError(f"model.positions=sinusoidal needs an even model.dim, not {self.dim}")
        if self.tied_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "model.tied_embeddings=all needs one vocabulary for both languages (tokenizer.joint=true); "
                f"here they have {self.source_vocab_size} and {self.target_vocab_size} ids"
            )
