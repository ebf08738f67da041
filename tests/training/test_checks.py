"""What is refused once the corpus has been prepared, before the first step."""

import inspect
from pathlib import Path

import pytest
from lightning import Trainer
from transformer.training.trainer_arguments import trainer_names

from tests.cases import others_long
from tests.data.corpora import write
from tests.processes import posix_only
from tests.reliability.runs import corpus, settings, train
from tests.training.small import module_for, trainer_for
from transformer.data.datamodule import TranslationData
from transformer.training.checks import check_limits, whole_numbers


@pytest.mark.parametrize(("part", "split"), [("train", "train"), ("val", "validation"), ("test", "test")])
def test_a_share_of_less_than_one_batch_is_refused_with_its_number(
    data: TranslationData, part: str, split: str
) -> None:
    count = len(data.loader(split))
    for accepted in (1 / count, 1.0, 1, 0):
        check_limits(data, {f"limit_{part}_batches": accepted})
    with pytest.raises(ValueError, match=f"of the {count} batches of {split} is less than one"):
        check_limits(data, {f"limit_{part}_batches": 0.9 / count})


@pytest.mark.parametrize("limit", others_long([0.5, 1, 5]))
def test_every_step_has_as_many_batches(data: TranslationData, tmp_path: Path, limit: float) -> None:
    check_limits(data, {"limit_train_batches": 10**6, "accumulate_grad_batches": 3})  # all there are
    for accumulated in range(2, 7):
        limits = {"limit_train_batches": limit, "limit_val_batches": 0}
        trainer = trainer_for(tmp_path, max_steps=1, accumulate_grad_batches=accumulated, **limits)
        trainer.fit(module_for(data), datamodule=data)
        batches, data.trainer = int(trainer.num_training_batches), None
        settings = {"limit_train_batches": limit, "accumulate_grad_batches": accumulated}
        if batches % accumulated:
            with pytest.raises(ValueError, match=rf"limit_train_batches={limit} leaves {batches} batches an epoch, "):
                check_limits(data, settings)
        else:
            check_limits(data, settings)


def test_the_trainers_arguments_are_those_that_its_source_names() -> None:
    assert trainer_names() == list(inspect.signature(Trainer).parameters)


def test_a_count_that_is_typed_as_a_float_is_that_whole_number(tmp_path: Path) -> None:
    typed = {"max_epochs": 1.0, "max_steps": 1e3, "accumulate_grad_batches": 2.0, "limit_train_batches": 3.0}
    read = whole_numbers(typed)
    assert read == typed
    assert {type(value) for value in read.values()} == {int}
    trainer = trainer_for(tmp_path, **read)
    assert (trainer.limit_train_batches, trainer.accumulate_grad_batches, trainer.max_epochs) == (3, 2, 1)


def test_a_share_and_what_may_be_a_fraction_stay_as_they_are() -> None:
    typed = {"limit_train_batches": 1.0, "limit_val_batches": 0.5, "gradient_clip_val": 2.0, "max_steps": 2.5, "x": 1.0}
    assert [type(value) for value in whole_numbers(typed).values()] == [float] * 5


@posix_only
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_split_with_fewer_sentences_than_processes_is_refused_before_they_start(tmp_path: Path) -> None:
    home = corpus(tmp_path)
    for language in ("de", "en"):
        write(home, f"test.{language}", (home / f"test.{language}").read_text(encoding="utf-8").splitlines()[:2])
    said = "the 2 sentences of test cannot be distributed to 3 processes: give trainer.devices=2 or less"
    with pytest.raises(ValueError, match=said):
        train(tmp_path / "run", settings(home, trainer__devices=3, trainer__strategy="ddp"))
    assert list((tmp_path / "run").iterdir()) == []
