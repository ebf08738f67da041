"""When a run ends for want of a better BLEU, and that it ends validated, once."""

import re
from pathlib import Path

import pytest
import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformer.training.callbacks.validation import Patience

from tests.reliability.runs import corpus, last, position, settings, train
from tests.training.small import trainer_for

BLEUS = [10.0, 30.0, 30.0, 20.0, 40.0, 30.0, 20.0, 10.0, 50.0]


class Scored(LightningModule):
    """Has these BLEUs, one after every step; its loss only falls."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.validations = nn.Parameter(torch.zeros(())), 0

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        return self.weight**2

    def validation_step(self, batch: Tensor, index: int) -> None:
        self.log("validation/bleu", torch.tensor(BLEUS[self.validations]))
        self.log("validation/loss", torch.tensor(1.0 - self.validations / 10))
        self.validations += 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("patience", "steps", "done"),
    [
        (1, 9, 3),  # an equal one is not better
        (2, 9, 4),
        (3, 9, 8),
        (3, 8, 8),  # the last step anyhow
        (4, 9, 9),
    ],
)
def test_a_run_ends_after_so_many_validations_without_a_better_bleu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], patience: int, steps: int, done: int
) -> None:
    often = {"val_check_interval": 1, "check_val_every_n_epoch": None, "callbacks": [Patience(patience)]}
    trainer, module = trainer_for(tmp_path, max_steps=steps, **often), Scored()
    batches = [torch.zeros(1)] * 20
    trainer.fit(module, DataLoader(batches, batch_size=None), DataLoader(batches[:1], batch_size=None))  # type: ignore[arg-type]
    assert trainer.global_step == module.validations == done
    why = f"{patience} validation{'s' if patience > 1 else ''} without a better BLEU"
    said = f"no further step after {done}: {why} (a larger training.patience trains longer)"
    assert [line for line in capsys.readouterr().err.splitlines() if "BLEU" in line] == [said] * (done < steps)


def test_a_run_that_is_over_is_validated_and_not_again_when_it_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, run = settings(corpus(tmp_path), trainer__max_steps=2, test=False), tmp_path / "run"
    for validations in (1, 0):
        train(run, plain, last(run))
        assert len(re.findall("^step 2 of 2 .*validation loss", capsys.readouterr().err, re.MULTILINE)) == validations
        assert not position(run)["validating"]
