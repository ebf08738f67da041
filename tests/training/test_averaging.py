"""Averages of weights against the same averages of the weights seen from outside; who gets which."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import Callback, Trainer
from torch import Tensor
from transformer.training.callbacks.averaging import WeightAveraging, averaging_note
from transformer.training.callbacks.self_contained import SelfContainedCheckpoint

from tests.cases import others_long
from tests.reliability.runs import corpus, settings, train
from tests.training.small import SETTINGS, module_for, numbers_data, trainer_for
from transformer import Translator
from transformer.data.datamodule import TranslationData
from transformer.training.config import AveragingSettings

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def weights(module: Any) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in module.model.named_parameters()}


class Watch(Callback):
    """The weights after every step and those that are validated."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Tensor]] = []
        self.validated: list[dict[str, Tensor]] = []
        self.then: list[int] = []

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        self.steps = [weights(module)]

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        if trainer.global_step == len(self.steps):  # not after a batch whose gradient is accumulated
            self.steps.append(weights(module))

    def on_validation_batch_end(self, trainer: Trainer, module: Any, *at: Any) -> None:
        if not trainer.sanity_checking and (not self.then or self.then[-1] != trainer.global_step):
            self.then.append(trainer.global_step)
            self.validated.append(weights(module))


def expected(
    settings: AveragingSettings, seen: list[dict[str, Tensor]], steps: int, then: list[int]
) -> dict[str, Tensor]:
    if settings.kind == "last":
        some = [seen[step] for step in then if step <= steps][-settings.count :]
        return {name: torch.stack([one[name] for one in some]).mean(dim=0) for name in seen[0]}
    average = dict(seen[0])
    for step in range(1, steps + 1):
        decay = min(settings.decay, (1 + step) / (10 + step))
        average = {name: decay * average[name] + (1 - decay) * seen[step][name] for name in average}
    return average


def fit(data: TranslationData, folder: Path, callbacks: list[Callback], module: Any) -> tuple[Trainer, Watch]:
    """Trains for 20 steps and validates, on a batch, after every 5."""
    watch = Watch()
    often = {"check_val_every_n_epoch": None, "val_check_interval": 5, "limit_val_batches": 1, "gradient_clip_val": 1.0}
    # The weights of before the first step, which a check of the validation sees, are in no average of the last.
    trainer = trainer_for(folder, max_steps=20, num_sanity_val_steps=1, callbacks=[*callbacks, watch], **often)
    trainer.fit(module, datamodule=data)
    return trainer, watch


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """What is seen of a training without averages."""
    folder = tmp_path_factory.mktemp("alone")
    data = numbers_data(folder)
    return fit(data, folder, [], module_for(data, SETTINGS))[1]


@pytest.mark.parametrize("kind", others_long(["exponential", "last"]))
def test_the_average_is_validated_and_saved_and_training_knows_nothing_of_it(
    data: TranslationData, alone: Watch, tmp_path: Path, kind: Any
) -> None:
    averaging = AveragingSettings(kind, 0.6, 3)  # a decay that is reached after 13 steps
    module = module_for(data, replace(SETTINGS, averaging=averaging))
    callbacks = [WeightAveraging(module.model, averaging), SelfContainedCheckpoint(module.translator)]
    trainer, watch = fit(data, tmp_path, callbacks, module)
    assert watch.then == [5, 10, 15, 20]
    for step, found in zip(watch.then, watch.validated, strict=True):
        for name, weight in expected(averaging, watch.steps, step, watch.then).items():
            torch.testing.assert_close(found[name], weight, atol=1e-6, rtol=1e-5)
    for ours, others in zip(watch.steps, alone.steps, strict=True):
        assert all(torch.equal(ours[name], others[name]) for name in ours)

    trainer.save_checkpoint(tmp_path / "x.ckpt")
    loaded = dict(Translator.load(tmp_path / "x.ckpt").model.named_parameters())
    last = expected(averaging, watch.steps, 20, watch.then)
    for name, weight in loaded.items():
        torch.testing.assert_close(weight.detach(), last[name], atol=1e-6, rtol=1e-5)
        assert torch.equal(module.model.get_parameter(name), watch.steps[-1][name])


def test_an_average_counts_updates_however_many_batches_each_has(data: TranslationData, tmp_path: Path) -> None:
    averaging, watch = AveragingSettings("exponential", 0.9, 3), Watch()
    module = module_for(data, replace(SETTINGS, averaging=averaging))
    averages = WeightAveraging(module.model, averaging)
    trainer = trainer_for(
        tmp_path, max_steps=4, accumulate_grad_batches=3, limit_val_batches=0, callbacks=[averages, watch]
    )
    trainer.fit(module, datamodule=data)
    torch.testing.assert_close(averages.average, [*expected(averaging, watch.steps, 4, []).values()])


@pytest.mark.parametrize("kind", ["exponential", "last"])
def test_a_checkpoint_before_the_first_validation_has_learned(data: TranslationData, tmp_path: Path, kind: Any) -> None:
    averaging = AveragingSettings(kind, 0.9, 3)
    module = module_for(data, replace(SETTINGS, averaging=averaging))
    before = weights(module)
    callbacks = [WeightAveraging(module.model, averaging), SelfContainedCheckpoint(module.translator)]
    trainer = trainer_for(tmp_path, max_steps=3, callbacks=callbacks, limit_val_batches=0)
    trainer.fit(module, datamodule=data)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    loaded = weights(Translator.load(tmp_path / "x.ckpt"))
    assert all(not torch.equal(weight, before[name]) for name, weight in loaded.items())
    if kind == "last":
        assert all(torch.equal(weight, module.model.get_parameter(name)) for name, weight in loaded.items())


def test_a_mean_over_too_much_of_a_run_is_said() -> None:
    last, exponential = AveragingSettings("last", 0.999, 5), AveragingSettings("exponential", 0.999, 5)
    assert averaging_note(last, 200, 5000) is None
    assert averaging_note(exponential, 200, 500) is None
    note = averaging_note(last, 100, 500)
    assert note is not None
    assert note.startswith("training.averaging.count=5 validations are 500 of 500 steps")


@pytest.mark.parametrize(
    "changes",
    others_long(
        [
            {"training__validate_every": 15, "trainer__max_steps": 30},  # the last weights translate better
            # With so low a rate nothing is learned, and both have the same BLEU.
            {"training__learning_rate": 1e-4, "training__validate_every": 2, "trainer__max_steps": 4},
        ]
    ),
)
def test_the_last_weights_are_kept_where_they_translate_better_than_the_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    averaged = {"training__averaging__kind": "last", "training__averaging__count": 100, "test": False}
    train(run := tmp_path / "run", settings(corpus(tmp_path), **averaged | changes))
    line = r"^validation BLEU: (.*) averaged, (.*) with the last step's weights, so the (last|averaged) ones are kept$"
    found = re.search(line, capsys.readouterr().err, re.MULTILINE)
    assert found
    averaged_bleu, last_bleu = float(found[1]), float(found[2])  # rounded
    assert (last_bleu >= averaged_bleu) if found[3] == "last" else (last_bleu <= averaged_bleu)
    name, part = ("last", "averaging") if found[3] == "last" else ("best", "state_dict")
    saved = torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)[part]
    kept = dict(Translator.load(run / "translator.safetensors").model.named_parameters())
    expected = saved["weights"] if found[3] == "last" else [saved[f"model.{weight}"] for weight in kept]
    assert all(torch.equal(weight, other) for weight, other in zip(kept.values(), expected, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("part", [1, 0.5])
def test_an_average_validated_on_a_part_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: float
) -> None:
    few = {"training__validate_every": 1, "trainer__max_steps": 3, "trainer__limit_val_batches": part, "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), training__averaging__kind="last", **few))
    assert "with the last step's weights" not in capsys.readouterr().err
