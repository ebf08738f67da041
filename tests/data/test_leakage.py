"""Notices of a run about sentences of its test set in its training data."""

from pathlib import Path

import pytest

from tests.data.corpora import write
from tests.reliability.runs import corpus, settings, train
from transformer.data.leakage import overlap_notes

TRAIN = [("Ein Hund läuft.", "A dog runs."), ("Zwei Katzen!", "Two cats!"), ("…", "?"), ("水", "Water")]


def test_a_sentence_is_found_on_either_side_whatever_its_case_marks_and_spaces() -> None:
    scored = {
        "validation": [("Drei Vögel", "two cats"), ("WATER", "l'eau"), ("Vier Fische", "Four fish"), ("--", "--")],
        "test": [("Fünf", "Five")],
        "news": [("„ein  hund: la\u0308uft“", "something else")],
    }
    notes = overlap_notes(TRAIN, scored)
    assert [note.split(" (")[0] for note in notes] == [
        "validation: a side of 2 of 4 sentences is in train too",
        "news: a side of 1 of 1 sentences is in train too",
    ]


def test_a_run_says_how_much_of_its_test_it_trains_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = corpus(tmp_path)
    for language in ("de", "en"):
        lines = (home / f"train.{language}").read_text(encoding="utf-8").splitlines()
        write(home, f"test.{language}", lines[3:8])
    train(tmp_path / "run", settings(home, trainer__max_steps=1, test=False))
    assert "test: a side of 5 of 5 sentences is in train too" in capsys.readouterr().err
