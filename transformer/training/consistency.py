"""Settings of all regularizers but dropout, and the loss of two views of each sentence that should agree."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.data.batching import Batch
from transformer.data.tokenizer import PAD
from transformer.model import Transformer
from transformer.model.config import Rate
from transformer.training.cross_entropy import smoothed_cross_entropy
from transformer.training.kl import divergence
from transformer.training.linear_loss import projected_loss
from transformer.training.regularization import Cut, cut_second_half, drop_layers, drop_words


@dataclass(frozen=True)
class RegularizationSettings:
    """Each is left out at 0 (or none); dropout itself belongs to the model's settings."""

    word_dropout: Rate
    layer_drop: Rate
    bpe_dropout: Rate
    consistency: Literal["none", "r_drop", "cutoff"]
    consistency_weight: Annotated[float, ">= 0"]
    cut: Cut
    cut_share: Rate


def regularize(model: Transformer, settings: RegularizationSettings) -> None:
    """Hangs on the model what acts within it."""
    if settings.word_dropout:
        drop_words(model, settings.word_dropout)
    if settings.layer_drop:
        drop_layers(model, settings.layer_drop)


def consistent_loss(
    model: Transformer, batch: Batch, smoothing: float, settings: RegularizationSettings
) -> Float[Tensor, ""]:
    """(CE(first) + CE(second) + α D(first, second)) / 2, summed over real target positions, in nats: each sentence goes
    through the model twice and the two predictions are drawn together.

    r_drop: the views differ by dropout alone, D is the symmetric Kullback-Leibler divergence (Liang et al. 2021,
    eq. 4). cutoff: the second view has a share cut away, D is Jensen-Shannon's (Shen et al. 2020). Halved, so that
    learning rates and what the log shows mean the same as with one view.
    """
    source, inputs = (torch.cat([part, part]) for part in (batch.source, batch.inputs))
    source_visible = None if batch.source_visible is None else torch.cat([batch.source_visible, batch.source_visible])
    cutoff = settings.consistency == "cutoff"
    with cut_second_half(model, settings.cut, settings.cut_share) if cutoff else nullcontext():
        states = model.states(inputs, model.encode(source, source_visible))

    def loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        first, second = logits
        apart, drawn = divergence(first, second, "jensen_shannon" if cutoff else "kullback_leibler")
        wrong, right = smoothed_cross_entropy(logits.flatten(0, 1), labels.repeat(2), smoothing)
        weight = settings.consistency_weight
        return (wrong.view(2, -1).sum(dim=0) + weight * apart) / 2, (right.view_as(drawn) + weight * drawn) / 2

    views = states.view(2, -1, *states.shape[1:])
    return projected_loss(views, model.output.weight, batch.labels, batch.labels != PAD, loss)
