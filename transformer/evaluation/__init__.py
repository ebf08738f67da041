"""Scores of translations, and whether they differ by more than chance."""

from transformer.evaluation.metrics import METRICS, Scores, build_metrics, score

__all__ = ["METRICS", "Scores", "build_metrics", "score"]
