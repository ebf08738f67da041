"""The last lines of a finished run, and the table of a sweep."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from transformer.evaluation.metrics import Scores
from transformer.inference.translator import BEAM
from transformer.training.results import Result, show_result

SCORES = {"test": Scores({"bleu": 31.25, "chrf": 50.0}, {"bleu": "nrefs:1", "chrf": "nrefs:1"})}


def test_a_sweep_shows_the_scores_of_a_test_or_else_the_one_of_validation() -> None:
    cost = {"ms/step": 12.5}
    tested = Result(30.0, "bleu", SCORES, cost, [], [])
    assert tested.numbers() == {
        "test/bleu": 31.25,
        "test/chrf": 50.0,
        "ms/step": 12.5,
    }
    assert Result(0.0, "bleu", {}, cost, [], []).numbers() == {"validation/bleu": 0.0, "ms/step": 12.5}
    assert Result(None, "bleu", {}, cost, [], []).numbers() == cost


@pytest.mark.parametrize(("bleu", "said"), [(0.0, "BLEU 0.0"), (None, "nothing was validated")])
def test_a_run_without_its_test_says_its_validation_and_how_to_test_it(
    capsys: pytest.CaptureFixture[str], bleu: float | None, said: str
) -> None:
    show_result(Result(bleu, "bleu", {}, {}, [], []), Path("my_run"), BEAM)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"validation: {said}"
    assert lines[-1].strip() == "translator train resume=my_run test=true"


@pytest.mark.parametrize(("sentence", "dashes"), [("Ein Hund.", ""), ("- Ein Hund.", "-- ")])
def test_the_next_commands_have_the_search_of_the_test_and_no_more(
    capsys: pytest.CaptureFixture[str], sentence: str, dashes: str
) -> None:
    # The model has its own length penalty by now.
    search = replace(BEAM, min_length=3, length_penalty=1.5)
    result = Result(30.0, "bleu", SCORES, {}, [(sentence, "A dog.", "The dog.")], ["test: 2 were cut"])
    show_result(result, Path("my_run"), search)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "test: BLEU 31.2   chrF 50.0" in lines
    assert "test: 2 were cut" in lines
    assert lines[4:7] == [sentence, "→ The dog.", "= A dog."]
    assert "translator evaluate my_run --min-length 3" in lines
    quotes = '"' if os.name == "nt" else "'"
    assert f"translator translate --checkpoint my_run --min-length 3 {dashes}{quotes}{sentence}{quotes}" in lines
