"""The settings of a model, as plain typed data: they come from YAML and go into every checkpoint.

The defaults are those of the paper's base model, as in configs/model/base.yaml (a test compares the two).
"""

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from transformer.config import Registry, SettingError, Settings, check_names, merge, read_fields, shown

# The class for each name in the settings. To add one: write a class in the file that is named, and add a line here.
SCORES: Registry[Any] = Registry(
    dot="transformer.model.scores:DotProduct",
    scaled_dot="transformer.model.scores:ScaledDotProduct",
    bilinear="transformer.model.scores:Bilinear",
    concat="transformer.model.scores:Concat",
    additive="transformer.model.scores:Additive",
)
POSITIONS: Registry[Any] = Registry(
    sinusoidal="transformer.model.positions:Sinusoidal",
    learned="transformer.model.positions:Learned",
    rotary="transformer.model.positions:Rotary",
    alibi="transformer.model.positions:ALiBi",
    none="transformer.model.positions:NoPositions",
)

# Far above the sizes of any real model; whether the model fits into memory is checked elsewhere.
Size = Annotated[int, ">= 1", "<= 1000000"]
Layers = Annotated[int, ">= 1", "<= 200"]
Rate = Annotated[float, ">= 0", "< 1"]


@dataclass(frozen=True)
class AttentionConfig(Settings):
    """One of the three attentions."""

    heads: Size = 8
    """how many; each has its own projections of width head_dim"""
    head_dim: Size | None = None
    """width of a head's queries and keys; null: dim / heads"""
    value_dim: Size | None = None
    """width of a head's values; null: dim / heads"""
    dropout: Rate = 0.0
    """on the attention weights"""
    bias: bool = True
    """whether the projections have a bias"""
    score: Annotated[str, SCORES] = "scaled_dot"
    """how a query is compared with a key: dot | scaled_dot | bilinear | concat | additive"""

    def head_dims(self, dim: int) -> tuple[int, int]:
        """The width of a head's queries and keys, and that of its values, in a model of width `dim`."""
        return self.head_dim or dim // self.heads, self.value_dim or dim // self.heads


@dataclass(frozen=True)
class FeedForwardConfig(Settings):
    """The position-wise network: its inner width, its activation and the dropout on the inner states."""

    dim: Size = 2048
    """inner width"""
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    """relu | gelu | silu | swiglu"""
    dropout: Rate = 0.0
    """after the activation"""


@dataclass(frozen=True)
class EncoderConfig(Settings):
    """How many layers, and their attention: source to source."""

    layers: Layers = 6
    self_attention: AttentionConfig = AttentionConfig()


@dataclass(frozen=True)
class DecoderConfig(Settings):
    """How many layers, and their attentions: target to target and target to source.

    Without `cross_attention` (None) the decoder never sees the source: it is a language model.
    """

    layers: Layers = 6
    self_attention: AttentionConfig = AttentionConfig()
    cross_attention: AttentionConfig | None = AttentionConfig()


@dataclass(frozen=True, init=False)
class ModelConfig:
    """All settings of a Transformer; `ModelConfig()` is the paper's base model."""

    source_vocab_size: Size
    """how many ids there are on the side of the source"""
    target_vocab_size: Size
    """how many ids there are on the side of the target"""
    dim: Size
    """width of every token's state"""
    positions: Annotated[str, POSITIONS]
    """sinusoidal | learned | rotary | alibi | none"""
    max_length: Annotated[int, ">= 2", "<= 65536"]
    """the longest sentence in tokens, with its end symbol; how many learned positions there are"""
    norm: Literal["pre", "post"]
    """post: after each sublayer (the paper) | pre: before it (trains more steadily)"""
    tied_embeddings: Literal["all", "target", "none"]
    """all: source = target = output; target: target = output; none"""
    output_bias: bool
    """whether the projection to logits has a bias: no in the paper, yes in Marian and OPUS-MT"""
    dropout: Rate
    """after embeddings and every sublayer"""
    feed_forward: FeedForwardConfig
    encoder: EncoderConfig
    decoder: DecoderConfig

    def __init__(
        self,
        source_vocab_size: int = 37_000,
        target_vocab_size: int = 37_000,
        *,
        dim: int = 512,
        heads: int | None = None,
        layers: int | None = None,
        score: str | None = None,
        positions: str = "sinusoidal",
        max_length: int = 512,
        norm: str = "post",
        tied_embeddings: str = "all",
        output_bias: bool = False,
        dropout: float = 0.1,
        feed_forward: FeedForwardConfig | dict[str, Any] | None = None,
        encoder: EncoderConfig | dict[str, Any] | None = None,
        decoder: DecoderConfig | dict[str, Any] | None = None,
    ) -> None:
        """`heads` (8), `layers` (6) and `score` (scaled_dot) are for all attentions and both stacks, unless a part
        sets its own. A part may be a dict with only some of its settings: encoder={"layers": 12}.

        Raises ValueError that names the setting, for a value that is not allowed or a combination that does not work.
        """
        attention = {key: value for key, value in {"heads": heads, "score": score}.items() if value is not None}
        stack = {} if layers is None else {"layers": layers}
        if (attention or stack) and (isinstance(encoder, EncoderConfig) or isinstance(decoder, DecoderConfig)):
            raise ValueError("heads, layers and score: set them in the EncoderConfig and DecoderConfig that you give")
        shared = AttentionConfig(**attention)  # type: ignore[arg-type]
        below = {
            "feed_forward": FeedForwardConfig(),
            "encoder": EncoderConfig(**stack, self_attention=shared),
            "decoder": DecoderConfig(**stack, self_attention=shared, cross_attention=shared),
        }
        parts = {"feed_forward": feed_forward or {}, "encoder": encoder or {}, "decoder": decoder or {}}
        settings = {
            "source_vocab_size": source_vocab_size,
            "target_vocab_size": target_vocab_size,
            "dim": dim,
            "positions": positions,
            "max_length": max_length,
            "norm": norm,
            "tied_embeddings": tied_embeddings,
            "output_bias": output_bias,
            "dropout": dropout,
        }
        for name, value in read_fields(ModelConfig, settings | merge(merge({}, below), parts)).items():
            object.__setattr__(self, name, value)  # frozen from here on
        self._check_combinations()

    def attentions(self) -> dict[str, AttentionConfig]:
        """The attentions that this model has, by their full names."""
        attentions = {
            "encoder.self_attention": self.encoder.self_attention,
            "decoder.self_attention": self.decoder.self_attention,
            "decoder.cross_attention": self.decoder.cross_attention,
        }
        return {name: attention for name, attention in attentions.items() if attention is not None}

    def _check_combinations(self) -> None:
        for name, attention in self.attentions().items():
            if self.dim % attention.heads and None in (attention.head_dim, attention.value_dim):
                raise SettingError(
                    f"{name}.heads",
                    f"={attention.heads} does not divide dim={self.dim}: choose another number, or set head_dim and "
                    "value_dim",
                )
            head_dim, _ = attention.head_dims(self.dim)
            if self.positions == "rotary" and name.endswith("self_attention") and head_dim % 2:
                raise SettingError("positions", f"=rotary rotates pairs: {name} has the odd head_dim {head_dim}")
        if self.positions == "sinusoidal" and self.dim % 2:
            raise SettingError("positions", f"=sinusoidal needs an even dim, not {self.dim}")
        if self.tied_embeddings == "all" and self.source_vocab_size != self.target_vocab_size:
            raise SettingError(
                "tied_embeddings",
                "=all needs one vocabulary for both languages (tokenizer.joint=true); here they have "
                f"{self.source_vocab_size} and {self.target_vocab_size} ids",
            )


def read_model(settings: dict[str, Any]) -> ModelConfig:
    """Checks and reads the settings of a model before there are tokenizers; the vocabularies get a size of 100.

    Raises ValueError.
    """
    try:
        if not isinstance(settings, dict):
            raise SettingError("", f"={shown(settings)} must be settings by name")
        check_names(settings, [*inspect.signature(ModelConfig).parameters])
        return ModelConfig(**(settings | {"source_vocab_size": 100, "target_vocab_size": 100}))
    except SettingError as error:
        raise error.within("model") from None
