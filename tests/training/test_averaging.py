"""Averages of weights compared with averages computed separately, and where they are used."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cases import others_long
from tests.reliability.runs import corpus, settings, train
from tests.training.small import SETTINGS, module_for, numbers_data, training_for
from transformer import Translator
from transformer.data.datamodule import TranslationData
from transformer.training.averaging import averaging_note
from transformer.training.config import AveragingSettings
from transformer.training.loop import Training

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def weights(module: Any) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in module.model.named_parameters()}


class Watch:
    """The weights after every step, and the validated ones."""

    def __init__(self, data: TranslationData, folder: Path, averaging: AveragingSettings, **trainer: Any) -> None:
        settings = replace(SETTINGS, averaging=averaging, validate_every=5, patience=50)
        module = module_for(data, settings)
        self.steps, self.then = [weights(module)], list[int]()
        self.validated: list[dict[str, Tensor]] = []
        self.training = training_for(module, data, folder, **trainer, on_step=[self.step])
        evaluate = self.training.evaluate_split

        def watched(name: str) -> Any:
            self.then.append(self.training.progress.step)
            self.validated.append(weights(module))
            return evaluate(name)

        self.training.evaluate_split = watched  # type: ignore[method-assign]
        self.training.fit()

    def step(self, training: Training) -> None:
        self.steps.append(weights(training.module))


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


TWENTY = {"max_steps": 20, "limit_val_batches": 1, "gradient_clip_val": 1.0}
NONE = AveragingSettings("none", 0.9, 3)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """The records of a training without averages."""
    folder = tmp_path_factory.mktemp("alone")
    return Watch(numbers_data(folder), folder, NONE, **TWENTY)


@pytest.mark.parametrize("kind", others_long(["exponential", "last"]))
def test_the_average_is_validated_and_saved_and_training_knows_nothing_of_it(
    data: TranslationData, alone: Watch, tmp_path: Path, kind: Any
) -> None:
    averaging = AveragingSettings(kind, 0.6, 3)  # a decay that is reached after 13 steps
    watch = Watch(data, tmp_path, averaging, **TWENTY)
    assert watch.then == [5, 10, 15, 20]
    for step, found in zip(watch.then, watch.validated, strict=True):
        for name, weight in expected(averaging, watch.steps, step, watch.then).items():
            torch.testing.assert_close(found[name], weight, atol=1e-6, rtol=1e-5)
    for ours, others in zip(watch.steps, alone.steps, strict=True):
        assert all(torch.equal(ours[name], others[name]) for name in ours)

    loaded = dict(Translator.load(tmp_path / "checkpoints" / "last.ckpt").model.named_parameters())
    last = expected(averaging, watch.steps, 20, watch.then)
    for name, weight in loaded.items():
        torch.testing.assert_close(weight.detach(), last[name], atol=1e-6, rtol=1e-5)
        assert torch.equal(watch.training.module.model.get_parameter(name), watch.steps[-1][name])


def test_an_average_counts_updates_however_many_batches_each_has(data: TranslationData, tmp_path: Path) -> None:
    averaging = AveragingSettings("exponential", 0.9, 3)
    watch = Watch(data, tmp_path, averaging, max_steps=4, accumulate_grad_batches=3, limit_val_batches=0)
    found = watch.training.average.average
    torch.testing.assert_close(found, [*expected(averaging, watch.steps, 4, []).values()])


@pytest.mark.parametrize("kind", ["exponential", "last"])
def test_a_checkpoint_before_the_first_validation_has_learned(data: TranslationData, tmp_path: Path, kind: Any) -> None:
    watch = Watch(data, tmp_path, AveragingSettings(kind, 0.9, 3), max_steps=3, limit_val_batches=0)
    loaded = weights(Translator.load(tmp_path / "checkpoints" / "last.ckpt"))
    assert all(not torch.equal(weight, watch.steps[0][name]) for name, weight in loaded.items())
    if kind == "last":
        assert all(torch.equal(weight, watch.steps[-1][name]) for name, weight in loaded.items())


def test_a_mean_over_too_much_of_a_run_gives_a_notice() -> None:
    last, exponential = AveragingSettings("last", 0.999, 5), AveragingSettings("exponential", 0.999, 5)
    assert averaging_note(last, 200, 5000) is None
    assert averaging_note(exponential, 200, 500) is None
    note = averaging_note(last, 100, 500)
    assert note is not None
    assert note.startswith("training.averaging.count=5 validations are 500 of 500 steps")


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    others_long(
        [
            {"training__validate_every": 15, "trainer__max_steps": 30},  # the last weights translate better
            # With such a low rate nothing is learned, and both have the same BLEU.
            {"training__learning_rate": 1e-4, "training__validate_every": 2, "trainer__max_steps": 4},
        ]
    ),
)
def test_the_last_weights_are_kept_where_they_translate_better_than_the_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    averaged = {"training__averaging__kind": "last", "training__averaging__count": 100, "test": False}
    train(run := tmp_path / "run", settings(corpus(tmp_path), **averaged | changes))
    line = r"^validation bleu: (.*) averaged, (.*) with the last step's weights: the (last|averaged) are kept$"
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
