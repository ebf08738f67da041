"""Translations of whole splits, put together from batches in any order and from all processes."""

from collections.abc import Iterable
from typing import Any

import torch

from transformer.evaluation.metrics import Scores, score


class Hypotheses:
    """By split and index of the sentence; a sentence that came twice counts once."""

    def __init__(self) -> None:
        self.by_split: dict[str, dict[int, str]] = {}

    def add(self, split: str, indices: list[int], texts: list[str]) -> None:
        self.by_split.setdefault(split, {}).update(zip(indices, texts, strict=True))

    def gather(self) -> None:
        """Gives every process the translations of all."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return
        shares: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(shares, self.by_split)
        for share in shares:
            for split, texts in share.items():
                self.by_split.setdefault(split, {}).update(texts)

    def indices(self, split: str) -> list[int]:
        """All of a split's, unless trainer.limit_test_batches asked for fewer."""
        return sorted(self.by_split[split])

    def texts(self, split: str) -> list[str]:
        return [self.by_split[split][i] for i in self.indices(split)]

    def scores(
        self, pairs: dict[str, list[tuple[str, str]]], languages: dict[str, str], metrics: Iterable[str]
    ) -> dict[str, Scores]:
        """Of every split against the targets of its `pairs`, which are in its language of `languages`."""
        references = {split: [pairs[split][i][1] for i in self.indices(split)] for split in self.by_split}
        return {
            split: score(self.texts(split), references[split], languages[split], metrics) for split in self.by_split
        }
