"""Scores of translations; imports nothing of ours."""

from transformer.evaluation.scores import CorpusBLEU, Scores, score

__all__ = ["CorpusBLEU", "Scores", "score"]
