"""Guided alignment: at the beginning of training, a loss teaches one head of cross-attention where to look.

Without it, a model needs thousands of steps to learn which source token a target token comes from. Counting in the
training pairs finds this in seconds, well enough for a start.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.data.aligner import DIAGONAL, TranslationTable, count_translations
from transformer.data.batching import Batch
from transformer.data.encoded import Split, evenly_spread
from transformer.data.tokenizer import EOS, PAD
from transformer.training.config import GuidedAlignmentSettings

# A smaller probability counts as this one: the logarithm of 0 would be infinite.
EPSILON = 1e-6


def relative_places(ids: Tensor) -> Float[Tensor, "batch length"]:
    """The position of the middle of each token, with the sentence from 0 to 1."""
    places = torch.arange(ids.size(1), device=ids.device) + 0.5
    return places / (ids != PAD).sum(dim=1, keepdim=True)


class GuidedAlignment:
    """A loss that moves the first head of the second-to-last decoder layer (Garg et al. 2019, section 3.1) toward
    alignments counted in the training pairs (Chen et al. 2016, section 3)."""

    def __init__(self, table: TranslationTable, settings: GuidedAlignmentSettings) -> None:
        """`table` has the probability of each target id as the translation of each source id."""
        self.table, self.settings = table, settings

    @classmethod
    def learn(
        cls, splits: Sequence[Split], target_vocabulary: int, settings: GuidedAlignmentSettings
    ) -> GuidedAlignment:
        """Counts in training pairs. A target word without a source word is aligned with EOS, which every source has."""
        pairs = [split.pair(0, number) for split, number in evenly_spread(splits)]
        ids = [(source.tolist(), target.tolist()) for source, target in pairs]
        return cls(count_translations(ids, EOS, target_vocabulary), settings)

    def weight(self, step: int) -> float:
        return self.settings.weight * max(0.0, 1 - step / self.settings.steps)

    def loss(self, layers: Sequence[Float[Tensor, "rows heads target source"]], batch: Batch) -> Float[Tensor, ""]:
        """−Σ p log a, summed over target tokens: p is the share of each source token in the target token, a the share
        of the head's attention that goes to it.

        `layers` are the weights of cross-attention; with R-Drop they have the batch twice, one view after the other.
        """
        targets, head = self.targets(batch), layers[max(0, len(layers) - 2)][:, 0].float()
        attention = head.view(-1, *targets.shape).mean(dim=0)
        return -(targets * attention.clamp_min(EPSILON).log()).sum()

    def targets(self, batch: Batch) -> Float[Tensor, "batch target source"]:
        """How likely each target token comes from each source token: p(target id | source id), higher if both are at
        the same place of their sentences (Dyer et al. 2013). Zeros for a target token that was never counted."""
        self.table = self.table.to(batch.source.device)
        source_places = relative_places(batch.source)[:, None, :]
        target_places = relative_places(batch.labels)[:, :, None]
        likely = self.table(batch.source[:, None, :], batch.labels[:, :, None])
        likely = likely * torch.exp(-DIAGONAL * (target_places - source_places).abs())
        return likely / likely.sum(dim=-1, keepdim=True).clamp_min(1e-30)
