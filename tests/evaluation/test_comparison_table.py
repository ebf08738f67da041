"""What a comparison says agrees with the p-values it shows."""

import pytest

from transformer.evaluation import significance
from transformer.evaluation.comparison_table import verdict


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (0.0004, "B is better than A: +1.0 BLEU, p < 0.001"),
        (0.012, "B is better than A: +1.0 BLEU, p = 0.012"),
        (0.0499, "B is better than A: +1.0 BLEU, p = 0.0499"),
        (0.0501, "B and A do not differ significantly: +1.0 BLEU, p = 0.0501"),
        (0.3, "B and A do not differ significantly: +1.0 BLEU, p = 0.300"),
    ],
)
def test_a_p_value_beside_its_level_looks_like_what_is_said(p: float, said: str) -> None:
    tested = {"A": significance.TestedScore(30.0, 0.5, None, None), "B": significance.TestedScore(31.0, 0.5, 0.0001, p)}
    assert verdict("A", "B", "bleu", tested) == said


def test_a_lower_score_is_better_where_the_metric_says_so() -> None:
    scores = {
        name: significance.TestedScore(score, 0.5, p, p) for name, score, p in (("A", 60.0, None), ("B", 55.0, 0.01))
    }
    assert verdict("A", "B", "ter", scores) == "B is better than A: -5.0 TER, p = 0.010"
