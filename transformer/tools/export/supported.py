"""Checks whether another program supports a model. Each format lists what it supports, so a new choice is refused."""

from collections.abc import Collection

from torch import Tensor

from transformer.data.directions import arrow
from transformer.inference.translator import Translator
from transformer.model.attention import MultiHeadAttention
from transformer.model.config import ModelConfig
from transformer.model.scores import Bilinear


def check_supported(
    config: ModelConfig, program: str, positions: Collection[str], scores: Collection[str], activations: Collection[str]
) -> None:
    """Raises ValueError for a setting that `program` does not support; the message says what it supports."""
    choices = [("model.positions", config.positions, positions)]
    choices += [(f"model.{name}.score", attention.score, scores) for name, attention in config.attentions().items()]
    choices.append(("model.feed_forward.activation", config.feed_forward.activation, activations))
    for setting, value, supported in choices:
        if value not in supported:
            raise ValueError(f"{setting}={value} cannot be exported to {program}: it supports {', '.join(supported)}")


def dot_product_query(attention: MultiHeadAttention) -> dict[str, Tensor]:
    """Copies of the weight (and bias) that turn states into vectors to multiply with keys: the query projection, and
    with a bilinear score also its W."""
    query = {name: part.detach().cpu().clone() for name, part in attention.query.named_parameters()}
    if isinstance(attention.score, Bilinear):
        # (x Qᵀ) W = x (Wᵀ Q)ᵀ, each head with its own W.
        turned = attention.score.weight.detach().cpu().mT
        for name, part in query.items():
            query[name] = (turned @ part.view(attention.heads, attention.head_dim, -1)).view_as(part)
    return query


def check_learned(translator: Translator, format: str) -> None:
    """Raises ValueError for a direction that the model has not learned."""
    if translator.is_zero_shot:
        raise ValueError(
            f"{format} has only the directions that the model has learned, {arrow(*translator.directions)}: "
            f"{arrow(translator.languages)} is not one of them"
        )
