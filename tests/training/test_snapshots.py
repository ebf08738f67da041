"""The models that a run keeps while it trains, and that each is the model of its step."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training.small import SETTINGS, module_for, training_for
from transformer import Translator
from transformer.data.datamodule import TranslationData
from transformer.run import Run
from transformer.training.loop import Training, snapshot_steps


@pytest.mark.parametrize(("count", "total"), [(1, 1000), (6, 1000), (6, 200), (5, 7), (30, 1000)])
def test_snapshots_begin_before_the_first_step_and_come_ever_more_rarely(count: int, total: int) -> None:
    steps = sorted(snapshot_steps(count, total))
    assert len(steps) <= count
    assert steps[0] == 0
    gaps = [later - earlier for earlier, later in zip(steps, [*steps[1:], total], strict=True)]
    assert gaps[1:] == sorted(gaps[1:])  # the first is rounded
    if total > 2**count:
        assert len(steps) == count


def test_a_run_without_a_last_step_keeps_none_unless_it_is_asked_to() -> None:
    assert snapshot_steps(0, float("inf")) == set()


@pytest.mark.parametrize("kind", ["none", pytest.param("exponential", marks=pytest.mark.long)])
def test_a_snapshot_is_the_model_after_its_steps(data: TranslationData, tmp_path: Path, kind: str) -> None:
    """With averaged weights it is the average, like the final model."""
    averaging = replace(SETTINGS.averaging, kind=kind)
    module = module_for(data, replace(SETTINGS, snapshots=3, averaging=averaging))
    seen = {0: [weight.detach().clone() for weight in module.model.parameters()]}

    def on_step(training: Training) -> None:
        with training.average.in_use():
            seen[training.progress.step] = [weight.detach().clone() for weight in module.model.parameters()]

    training_for(module, data, tmp_path, max_steps=10, limit_val_batches=0, on_step=[on_step]).fit()
    snapshots = Run(tmp_path).snapshots
    assert list(snapshots) == [0, 2, 5]
    for step, path in snapshots.items():
        found = Translator.load(path).model.parameters()
        assert all(torch.equal(one, other.half().float()) for one, other in zip(found, seen[step], strict=True)), step
