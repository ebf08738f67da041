"""Scores of translations, and whether they differ by more than chance; imports nothing of ours."""

from transformer.evaluation.hypotheses import Hypotheses
from transformer.evaluation.scores import CorpusBLEU, Scores, score

__all__ = ["CorpusBLEU", "Hypotheses", "Scores", "score"]
