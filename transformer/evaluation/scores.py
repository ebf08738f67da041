"""The numbers a user reads: BLEU, chrF and TER, all of them sacrebleu's own, with signatures."""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF, TER
from torch import Tensor
from torchmetrics import Metric


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF from 0 to 100 (higher is better), TER in edits per 100 words (lower is better)."""

    bleu: float
    chrf: float
    ter: float
    signatures: dict[str, str]

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@cache
def bleu_for(language: str) -> BLEU:
    """sacrebleu's BLEU with the tokenizer of the target language: 13a, or zh, ja-mecab, ko-mecab.

    Raises ValueError that says what to install for Japanese and Korean.
    """
    tokenizer = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}.get(language.split("-")[0].split("_")[0], "13a")
    try:
        return BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError) as error:
        extra = language[:2]
        raise ValueError(f"BLEU of {language} text needs a word segmenter: pip install 'sacrebleu[{extra}]'") from error


def score(hypotheses: list[str], references: list[str], language: str) -> Scores:
    """Scores one hypothesis a sentence against one reference a sentence.

    Raises ValueError where their numbers differ or there are none.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} translations cannot be scored against {len(references)} references")
    metrics = {"bleu": bleu_for(language), "chrf": CHRF(), "ter": TER()}
    values = {name: metric.corpus_score(hypotheses, [references]).score for name, metric in metrics.items()}
    return Scores(**values, signatures={name: str(metric.get_signature()) for name, metric in metrics.items()})


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
        self.bleu = bleu_for(language)
        # Two lengths, then matched and possible n-grams.
        counts = torch.zeros(2 + 2 * self.bleu.max_ngram_order, dtype=torch.int64)
        self.add_state("statistics", counts, dist_reduce_fx="sum")

    def update(self, hypotheses: list[str], references: list[str]) -> None:
        parts = self.bleu._extract_corpus_statistics(hypotheses, [references])
        self.statistics += torch.tensor(parts, device=self.statistics.device).sum(dim=0)

    def compute(self) -> Tensor:
        value = self.bleu._compute_score_from_stats(self.statistics.tolist()).score
        return torch.tensor(value, dtype=torch.float64)
