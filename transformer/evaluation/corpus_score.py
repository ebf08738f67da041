"""The score of a corpus that is processed in parts, by one process or several."""

import sacrebleu.metrics
import torch
from torch import Tensor
from torchmetrics import Metric

from transformer.evaluation.metrics import METRICS


class CorpusScore(Metric):
    """A metric of METRICS for a corpus that is processed in parts.

    Its state is sacrebleu's sufficient statistics (for BLEU: matched and possible n-grams and both lengths), which are
    summed over parts and processes: so the value is sacrebleu's value for the whole text.
    """

    full_state_update = False
    statistics: Tensor

    def __init__(self, name: str, language: str) -> None:
        super().__init__()
        self.metric: sacrebleu.metrics.base.Metric = METRICS[name].build(language)
        self.add_state("statistics", torch.zeros(self._statistics([""], [""]).shape[1:]).double(), dist_reduce_fx="sum")

    def _statistics(self, hypotheses: list[str], references: list[str]) -> Tensor:
        return torch.tensor(self.metric._extract_corpus_statistics(hypotheses, [references]), dtype=torch.float64)

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        if hypotheses:
            self.statistics += self._statistics(hypotheses, references).sum(dim=0).to(self.statistics.device)

    def compute(self) -> Tensor:
        counts = [int(count) if count.is_integer() else count for count in self.statistics.tolist()]
        value = self.metric._compute_score_from_stats(counts).score
        return torch.tensor(value, dtype=torch.float64)

    @property
    def signature(self) -> str:
        """sacrebleu's signature, which says how it was computed."""
        return str(self.metric.get_signature())
