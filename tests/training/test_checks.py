"""Settings that are refused before the first step."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases import others_long
from tests.data.corpora import write
from tests.factories import composed
from tests.processes import posix_only
from tests.reliability.runs import corpus, settings, train
from transformer.config import from_dict
from transformer.data.batching import limited
from transformer.data.datamodule import TranslationData
from transformer.training.checks import check_limits, check_trainer
from transformer.training.config import TrainerSettings


def trainer(**changes: Any) -> TrainerSettings:
    return from_dict(TrainerSettings, composed()["trainer"] | changes, "trainer")


@pytest.mark.parametrize(("part", "split"), [("train", "train"), ("val", "validation"), ("test", "test")])
def test_a_share_of_less_than_one_batch_is_refused_with_its_number(
    data: TranslationData, part: str, split: str
) -> None:
    count = len(data.loader(split))
    for accepted in (1 / count, 1.0, 1):
        check_limits(data, trainer(**{f"limit_{part}_batches": accepted}))
    with pytest.raises(ValueError, match=rf"limit_{part}_batches=.* of {count} batches is less than one"):
        check_limits(data, trainer(**{f"limit_{part}_batches": 0.9 / count}))


@pytest.mark.parametrize("limit", others_long([0.5, 1, 5]))
def test_every_step_has_as_many_batches(data: TranslationData, limit: float) -> None:
    check_limits(data, trainer(limit_train_batches=10**6, accumulate_grad_batches=3))  # all batches
    for accumulated in range(2, 7):
        batches = limited(len(data.loader("train", accumulate=accumulated)), limit)
        chosen = trainer(limit_train_batches=limit, accumulate_grad_batches=accumulated)
        if batches % accumulated:
            with pytest.raises(ValueError, match=rf"limit_train_batches={limit} leaves {batches} batches an epoch, "):
                check_limits(data, chosen)
        else:
            check_limits(data, chosen)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"max_steps": 0}, "trainer.max_steps=0"),
        ({"max_steps": 1.5}, "trainer.max_steps=1.5"),
        ({"devices": 0}, "trainer.devices=0"),
        ({"limit_train_batches": 0}, "trainer.limit_train_batches=0"),
        ({"limit_val_batches": 1.5}, "trainer.limit_val_batches=1.5"),
        ({"limit_val_batches": True}, "trainer.limit_val_batches=true"),
        ({"max_time": "10 minutes"}, "trainer.max_time=10 minutes"),
        ({"max_time": "00:00:00:00"}, "trainer.max_time=00:00:00:00"),
        ({"accelerator": "tpu"}, "trainer.accelerator=tpu"),
        ({"strategy": "fsdp"}, "trainer.strategy=fsdp"),
        ({"precision": "bf16-true"}, "trainer.precision=bf16-true"),
        ({"num_sanity_val_steps": 0}, "trainer.num_sanity_val_steps: no such setting"),
    ],
)
def test_a_value_that_no_run_can_have_is_refused_by_its_name(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        trainer(**changes)
    assert key in str(refused.value)


def test_a_time_is_read_as_days_hours_minutes_and_seconds() -> None:
    assert trainer(max_time="01:02:03:04").max_seconds == ((24 + 2) * 60 + 3) * 60 + 4
    assert trainer().max_seconds is None


def test_a_number_of_batches_and_a_share_of_them_stay_what_they_are() -> None:
    assert [type(trainer(limit_val_batches=limit).limit_val_batches) for limit in (1, 1.0, 0.5, 7)] == [
        *(int, float, float, int)
    ]
    assert [limited(10, limit) for limit in (1, 1.0, 0.5, 7, 70, 0)] == [1, 10, 5, 7, 10, 0]


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_here_is_refused_and_several_processes_are_ddp() -> None:
    for changes in ({"accelerator": "gpu"}, {"accelerator": "cuda"}, {"devices": -1}, {"devices": 10_000}):
        with pytest.raises(ValueError, match=r"trainer\.(accelerator|devices)="):
            check_trainer(trainer(**changes))
    with pytest.raises(ValueError, match=r"trainer\.precision=16-mixed needs a GPU"):
        check_trainer(trainer(precision="16-mixed"))
    assert check_trainer(trainer(devices=2)).strategy == "ddp"
    assert check_trainer(trainer(num_nodes=2)).strategy == "ddp"
    one = trainer(precision="32-true")
    assert check_trainer(one) == replace(one, strategy="auto")


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
