"""The plan for a small corpus, and the length of a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cases import others_long
from tests.factories import composed
from tests.tools.doctor.corpora import TEST, TRAIN, VALIDATION, write
from transformer.cli.train import choose_for_corpus, of_run, read_run_settings, shape
from transformer.model.config import read_model
from transformer.tools.doctor.plan import Plan, prepare, run_length
from transformer.training.train import prepare_data


def planned(folder: Path, *typed: str, pairs: int = 300) -> Plan:
    """The plan of a run on a small corpus, with typed settings."""
    corpus = write(folder, {"train": TRAIN[:pairs], "test": TEST, "validation": VALIDATION})
    splits = [f"data.{split}={prefix}" for split, prefix in corpus.splits.items()]
    languages = ["data.source_language=de", "data.target_language=en", f"data.cache={corpus.cache}"]
    plain, chosen = choose_for_corpus(of_run(composed("data=files", *splits, *languages, *typed)))
    return Plan(read_run_settings(plain), shape(read_model(plain["model"])), chosen)


def test_a_small_corpus_gets_as_many_pieces_as_it_gives(tmp_path: Path) -> None:
    prepare(plan := planned(tmp_path, pairs=2))
    assert plan.data is not None
    pieces = len(plan.data.source_tokenizer)
    assert pieces < plan.settings.tokenizer.vocabulary_size == plan.chosen["tokenizer.vocabulary_size"] == 1000
    assert f"tokenizer.vocabulary_size=1000 became {pieces}: the corpus gives no more" in plan.data.notes


def test_a_tokenizer_without_merges_leaves_none_out(tmp_path: Path) -> None:
    prepare(plan := planned(tmp_path, "tokenizer=char"))
    assert plan.data is not None
    assert plan.settings.training.bpe_dropout == 0


@pytest.mark.parametrize(
    ("typed", "error"),
    others_long(
        [
            ("model.max_length=3", "model.max_length=3 is less than the longest sentence of train needs"),
            ("trainer.limit_val_batches=1e-9", "trainer.limit_val_batches=1e-09 of"),
            ("data.max_length=1", "no pair of"),
        ],
        short=2,
    ),
)
def test_a_corpus_that_cannot_be_trained_on_has_a_plan_with_the_reason(tmp_path: Path, typed: str, error: str) -> None:
    prepare(plan := planned(tmp_path, typed))
    assert plan.data is None
    assert plan.error.startswith(error)


@pytest.mark.parametrize(
    ("changes", "steps", "epochs"),
    others_long(
        [
            ({}, 20, 20 / 7),
            ({"max_epochs": 3}, 20, 20 / 7),
            ({"max_epochs": 2}, 14, 2),
            ({"max_steps": -1, "max_epochs": 3, "accumulate_grad_batches": 4}, 6, 3),
            ({"max_steps": None, "max_epochs": 3}, 21, 3),
            ({"max_steps": None}, 1000, 1000 / 7),
            ({"limit_train_batches": 4}, 20, 5),
            ({"limit_train_batches": 0.5}, 20, 20 / 3),
        ],
        short=4,
    ),
)
def test_a_run_is_as_long_as_its_steps_and_epochs_allow(
    tmp_path: Path, changes: dict[str, Any], steps: int, epochs: float
) -> None:
    plan = planned(tmp_path, "data.batch_tokens=700", "tokenizer=word", "trainer.max_steps=20")
    data, trainer = prepare_data(plan.settings, None), plan.settings.trainer
    assert len([*data.sampler("train")]) == 7  # batches
    assert run_length(data, replace(trainer, **changes)) == {"steps": steps, "epochs": epochs}


def test_a_run_that_time_or_patience_ends_has_no_length(tmp_path: Path) -> None:
    plan = planned(tmp_path, "tokenizer=word")
    for limit in ({"max_steps": -1}, {"max_steps": None, "max_time": "00:00:10:00"}):
        trainer = replace(plan.settings.trainer, **limit)
        assert run_length(prepare_data(plan.settings, None), trainer) is None
