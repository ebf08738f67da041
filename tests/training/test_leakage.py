"""A run that begins with another's weights says whether its test was in the other's training data."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.reliability.runs import DIGITS, ENGLISH, corpus, last, settings, train
from transformer.files import SEEN_SENTENCES
from transformer.training import leakage
from transformer.training.leakage import (
    count_known_pairs,
    leakage_warnings,
    overlap_notes,
    read_hashes,
    sentence_hash,
    sentence_hashes,
    smallest,
    write_hashes,
)

PAIRS = [("Ein Hund läuft.", "A dog runs."), ("Zwei Katzen!", "Two cats!"), ("…", "?"), ("水", "Water")]


def test_sentences_are_the_same_whatever_their_case_marks_spaces_and_numbers() -> None:
    assert sentence_hash("Ein  Hund läuft.") == sentence_hash("„ein hund: la\u0308uft“") is not None
    assert sentence_hash("Um 10:30 Uhr") == sentence_hash("um 8:15 Uhr")
    assert sentence_hash("ein Hund") != sentence_hash("Ein Pfund")
    assert sentence_hash(" …! ") is None


def test_a_sentence_is_found_on_either_side_and_in_either_direction(tmp_path: Path) -> None:
    write_hashes(tmp_path, sentence_hashes(PAIRS))
    known = read_hashes(tmp_path / "checkpoints" / "best.ckpt")
    assert known is not None
    assert read_hashes(tmp_path) is not None
    others = [("Drei Vögel", "two cats"), ("WATER", "l'eau"), ("Vier Fische", "Four fish"), ("--", "--")]
    assert count_known_pairs(known, others) == (2, 3)
    assert (tmp_path / SEEN_SENTENCES).stat().st_size == 8 * 6


def test_of_many_sentences_those_that_are_kept_can_still_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leakage, "MAX_HASHES", 300)
    names = ["".join(letters) for letters in product("abcdefghij", repeat=3)]
    trained = [(f"Satz {name}", f"Sentence {name}") for name in names]
    others = [(f"Neuer Satz {name}", f"New sentence {name}") for name in names]
    known = sentence_hashes(trained)
    assert len(known) == 300
    np.testing.assert_array_equal(known, smallest(*map(sentence_hashes, (trained[500:], trained[:500]))))
    found, looked_up = count_known_pairs(known, trained)
    assert 0 < found == looked_up < 1000
    found, looked_up = count_known_pairs(known, others)
    assert found == 0 < looked_up


def test_where_all_sentences_are_kept_every_other_can_be_looked_up() -> None:
    others = [(f"Satz {name}", f"Sentence {name}") for name in "abcdefgh"]
    assert count_known_pairs(sentence_hashes(others)[:1], others) == (1, 8)


def test_only_splits_with_sentences_of_train_are_named() -> None:
    texts = {"validation": [("Neu", "New"), ("ein Hund läuft", "x"), ("…", "?")], "test": [("Neu", "New")]}
    said = "validation: a side of 1 of 2 checked sentences is in train too (doctor.py lists them)"
    assert overlap_notes(sentence_hashes(PAIRS), texts) == [said]
    texts["validation"].pop()
    assert overlap_notes(sentence_hashes(PAIRS), texts) == [said.replace(" checked", "")]


def test_only_splits_with_sentences_that_the_first_model_saw_are_named(tmp_path: Path) -> None:
    write_hashes(tmp_path, sentence_hashes(PAIRS))
    texts = {"test": [("Neu", "New"), ("ein Hund läuft", "x")], "news": [("Neu", "New")]}
    said = f"test: 1 of 2 sentences were in what {tmp_path} was trained on, so its score is too high"
    assert leakage_warnings(str(tmp_path), texts) == [said]


@pytest.mark.parametrize("content", [b"1234567", b"\x02" + bytes(7) + b"\x01" + bytes(7), bytes(16)])
def test_a_file_that_was_cut_or_altered_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SEEN_SENTENCES).write_bytes(content)
    with pytest.raises(ValueError, match="holds no hashes of sentences"):
        read_hashes(tmp_path)


@pytest.mark.long
def test_what_is_not_known_of_the_first_model_stays_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = settings(corpus(tmp_path), trainer__max_steps=1)
    train(tmp_path / "first", plain | {"test": False})
    (tmp_path / "first" / SEEN_SENTENCES).unlink()
    # As an attempt that was killed before its first checkpoint leaves it, which began with nothing.
    (tmp_path / "second").mkdir()
    write_hashes(tmp_path / "second", sentence_hashes(PAIRS))
    for model, run in (("first", "second"), ("second", "third")):
        capsys.readouterr()
        train(tmp_path / run, plain | {"init_from": str(tmp_path / model)})
        assert f"{model} does not say what it was trained on" in capsys.readouterr().err
    card = " ".join((tmp_path / "third" / "README.md").read_text(encoding="utf-8").split())
    assert "no other kind of text but that of the model that training began with" in card


@pytest.mark.long
def test_a_test_that_the_first_run_was_trained_on_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = settings(corpus(tmp_path), trainer__max_steps=1, test=False)
    train(tmp_path / "first", plain)
    shared = len(set(range(17, 4000, 23)) & set(range(18, 4000, 97)))
    assert f"validation: a side of {shared} of 42 sentences is in train too" in capsys.readouterr().err
    leaked, first = str(tmp_path / "train"), str(tmp_path / "first")
    (tmp_path / "words.de").write_text("".join(f"{word}\n" for word in DIGITS), encoding="utf-8")
    (tmp_path / "words.en").write_text("".join(f"{word}\n" for word in ENGLISH), encoding="utf-8")
    data = plain["data"] | {"train": str(tmp_path / "words"), "test": leaked}
    capsys.readouterr()
    train(tmp_path / "second", plain | {"init_from": first, "data": data})
    said = capsys.readouterr().err
    assert f"test: 174 of 174 sentences were in what {first} was trained on, so its score is too high" in said
    assert f"validation: {shared} of 42 sentences" in said
    # What was seen before is seen by the second run too.
    first_seen, second_seen = read_hashes(tmp_path / "first"), read_hashes(tmp_path / "second")
    assert first_seen is not None
    assert second_seen is not None
    assert set(first_seen.tolist()) < set(second_seen.tolist())
    (tmp_path / "first" / SEEN_SENTENCES).unlink()
    train(tmp_path / "third", plain | {"init_from": first, "data": data})
    assert "whether sentences of the test were among it is not known" in capsys.readouterr().err


@pytest.mark.long
def test_a_test_set_that_comes_as_a_run_goes_on_is_looked_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, run = settings(corpus(tmp_path), trainer__max_steps=1, trainer__limit_test_batches=1), tmp_path / "run"
    train(run, plain)
    said = []
    for tests in ({}, {"leaked": str(tmp_path / "train")}):
        capsys.readouterr()
        train(run, plain | {"data": plain["data"] | {"extra_tests": tests}}, last(run))
        said.append([line for line in capsys.readouterr().err.splitlines() if "too high" in line])
    assert said == [
        [],
        [f"leaked: 174 of 174 sentences were in what {run} was trained on, so its score is too high"],
    ]


@pytest.mark.long
def test_a_first_run_that_has_seen_the_part_left_out_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = settings(corpus(tmp_path), trainer__max_steps=1, test=False)
    folded = plain | {"data": plain["data"] | {"fold": [1, 3]}}
    train(tmp_path / "whole", plain)
    train(tmp_path / "fold", folded)
    for first, is_warned in (("whole", True), ("fold", False)):
        capsys.readouterr()
        train(tmp_path / f"after_{first}", folded | {"init_from": str(tmp_path / first)})
        warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("data.fold=[1, 3]: ")]
        assert [f"were in what {tmp_path / first} was trained on" in line for line in warnings] == [True] * is_warned
