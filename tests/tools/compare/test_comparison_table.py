"""The sentences of a comparison agree with its p-values, and each number is in the right row and column."""

import pytest

from transformer.tools.compare import significance
from transformer.tools.compare.comparison_table import show_comparison, show_differences, verdict


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (0.0004, "B is better than A: +1.0 BLEU, p < 0.001"),
        (0.012, "B is better than A: +1.0 BLEU, p = 0.012"),
        (0.0499, "B is better than A: +1.0 BLEU, p = 0.0499"),
        (50 / 1001, "B is better than A: +1.0 BLEU, p < 0.05"),
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


def test_each_number_stands_in_its_row_and_column(capsys: pytest.CaptureFixture[str]) -> None:
    score = significance.TestedScore
    bleu = {"A": score(30.0, 0.5, None, None), "B": score(31.0, 0.6, 0.012, 0.034), "C": score(30.0, 0.7, 1.0, 1.0)}
    ter = {"A": score(60.0, 1.0, None, None), "B": score(59.0, 2.0, 0.2, 0.01), "C": score(50.0, 1.5, 0.01, 0.02)}
    show_comparison({"bleu": bleu, "ter": ter}, {"A": 0.81, "B": 0.82, "C": 0.83}, None, [])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in (
        "run BLEU TER COMET p (bootstrap) p (randomization)",
        "A 30.0 ± 0.5 60.0 ± 1.0 0.8100",
        "B 31.0 ± 0.6* 59.0 ± 2.0 0.8200 0.012 0.034",
        "C 30.0 ± 0.7 50.0 ± 1.5* 0.8300 1.000 1.000",
        "B is better than A: +1.0 BLEU, p = 0.034",
        "C and A have the same BLEU",
    ):
        assert row.split() in lines


def test_a_sentence_that_differs_is_shown_with_both_translations(capsys: pytest.CaptureFixture[str]) -> None:
    systems = {"A": ["one", "to", "three"], "B": ["one", "too", "three"]}
    pairs = [("eins", "one"), ("zwei", "two"), ("drei", "three")]
    show_differences("A", "B", [significance.Difference(1, 20.4, 79.6)], pairs, systems)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Where A and B differ most (BLEU of the sentence; 1 of 3 translations differ)",
        "",
        "line 2",
        "  source     zwei",
        "  reference  two",
        "  A          to  (20)",
        "  B          too  (80)",
    ]
