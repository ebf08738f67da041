"""BLEU while training: of a corpus that comes in batches, on one process or several."""

import torch
from torch import Tensor
from torchmetrics import Metric

from transformer.evaluation.metrics import bleu


class CorpusBLEU(Metric):
    """BLEU of a corpus that comes in parts, on one process or several.

    Its state is sacrebleu's sufficient statistics (matched and possible n-grams for n = 1…4, and both lengths), which
    are summed: the value is sacrebleu's on the whole text however it was split.
    """

    higher_is_better = True
    full_state_update = False
    statistics: Tensor

    def __init__(self, language: str) -> None:
        super().__init__()
        self.bleu = bleu(language)
        # Two lengths, then matched and possible n-grams.
        counts = torch.zeros(2 + 2 * self.bleu.max_ngram_order, dtype=torch.int64)
        self.add_state("statistics", counts, dist_reduce_fx="sum")

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        parts = self.bleu._extract_corpus_statistics(hypotheses, [references])
        self.statistics += torch.tensor(parts, device=self.statistics.device).sum(dim=0)

    def compute(self) -> Tensor:
        value = self.bleu._compute_score_from_stats(self.statistics.tolist()).score
        return torch.tensor(value, dtype=torch.float64)
