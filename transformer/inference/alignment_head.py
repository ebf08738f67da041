"""The cross-attention weights that tell which source word a target word comes from."""

from dataclasses import dataclass
from typing import Annotated

from transformer.inference.settings import AlignmentSettings
from transformer.model.config import ModelConfig

NO_CROSS_ATTENTION = "the model has no cross-attention (model.decoder.cross_attention=null): it cannot align words"


@dataclass(frozen=True)
class AlignmentHead:
    """The weights that align words: layer and head are counted from 1; `head` None is the mean of the layer's heads.
    `shifted`: the weights of the step that reads a target token, not of the one that predicts it."""

    layer: Annotated[int, ">= 1", "<= 1000000"]
    head: Annotated[int, ">= 1", "<= 1000000"] | None
    shifted: bool

    def __str__(self) -> str:
        head = f"head {self.head}" if self.head else "mean of its heads"
        return f"layer {self.layer}, {head}, at the step that {'reads' if self.shifted else 'predicts'} the word"


def candidates(config: ModelConfig) -> list[AlignmentHead]:
    """All layers, heads and steps that could align. ValueError for a model without cross-attention."""
    if config.decoder.cross_attention is None:
        raise ValueError(NO_CROSS_ATTENTION)
    heads = [None, *range(1, config.decoder.cross_attention.heads + 1)]
    layers = range(1, config.decoder.layers + 1)
    return [AlignmentHead(layer, head, shifted) for shifted in (False, True) for layer in layers for head in heads]


def default_head(config: ModelConfig) -> AlignmentHead:
    """The default if nothing was measured: the second-to-last layer, or the last of one or two (Garg et al. 2019).

    ValueError for a model without cross-attention.
    """
    if config.decoder.cross_attention is None:
        raise ValueError(NO_CROSS_ATTENTION)
    layers = config.decoder.layers
    return AlignmentHead(layers - 1 if layers > 2 else layers, None, shifted=False)


def check_head(head: AlignmentHead, config: ModelConfig) -> None:
    """Raises ValueError for a layer or a head that the model does not have."""
    attention = config.decoder.cross_attention
    if attention is None:
        raise ValueError(NO_CROSS_ATTENTION)
    if head.layer > config.decoder.layers or (head.head or 1) > attention.heads:
        ranges = f"layers 1 to {config.decoder.layers}, each with heads 1 to {attention.heads}"
        raise ValueError(f"alignment: there is no {head}: the decoder of this model has {ranges}")


def asked_head(asked: AlignmentSettings, config: ModelConfig, found: AlignmentHead | None) -> AlignmentHead:
    """The head in the settings, else the one that training has `found`.

    Raises ValueError for a layer or a head that the model does not have.
    """
    if asked.layer is None:
        return found or default_head(config)
    head = AlignmentHead(asked.layer, asked.head, asked.shifted)
    check_head(head, config)
    return head
