"""A run whose number of steps was chosen by time equals a run with that number typed."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.reliability.runs import assert_equal, corpus, last, position, settings, term, train, trouble
from transformer.config import from_dict
from transformer.run import Run
from transformer.signals import Interrupted
from transformer.training.config import RunSettings
from transformer.training.pace import PLANNED, Pace, fitting_steps

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
TIME = {"trainer__max_time": "00:00:01:00", "trainer__max_steps": None}
NULL = ("training.warmup_steps", "training.validate_every")


def weights(run: Path) -> dict[str, Any]:
    """The results of training, without the settings and the times."""
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    return {name: checkpoint[name] for name in ("state_dict", "optimizer", "averaging", "progress", "hyper_parameters")}


def test_a_run_whose_steps_were_chosen_is_the_run_with_these_steps_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was stopped and resumed. With a clock in which each step takes a second, the run is short."""
    monkeypatch.setattr("time.perf_counter", map(float, count()).__next__)
    home, by_time = corpus(tmp_path), tmp_path / "by time"
    with trouble(16, term), pytest.raises(Interrupted):
        train(by_time, settings(home, **TIME), chosen=dict.fromkeys(NULL, 0))
    fitted = Run(by_time).settings
    assert 0 < position(by_time)["step"] < fitted["trainer"]["max_steps"] < 57
    train(by_time, fitted, last(by_time))

    typed = {f"training__{name}": fitted["training"][name] for name in ("warmup_steps", "validate_every")}
    train(tmp_path / "typed", settings(home, **typed, trainer__max_steps=fitted["trainer"]["max_steps"]))
    assert position(by_time)["step"] == fitted["trainer"]["max_steps"]
    assert_equal(weights(by_time), weights(tmp_path / "typed"), ("", ""), "")
    assert Run(by_time).hypotheses("test") == Run(tmp_path / "typed").hypotheses("test")


def of_run(**changes: Any) -> RunSettings:
    plain = settings(Path("corpus"), **changes)
    return from_dict(RunSettings, {key: value for key, value in plain.items() if key != "model"})


@pytest.mark.parametrize(
    ("every", "chosen", "seconds", "fitted"),
    [
        # A step and its share of a validation take 0.11 s; two more validations are at the end.
        (100, (), 1000, {"trainer.max_steps": 7800}),
        # Ten validations of 1 s, and one with the last step's weights.
        (1000, NULL, 1000, {"trainer.max_steps": 8490, "training.warmup_steps": 4, "training.validate_every": 849}),
        # The test alone would take all of the time, so training has half of it.
        (1000, NULL, 100, {"trainer.max_steps": 500, "training.warmup_steps": 4, "training.validate_every": 50}),
    ],
)
def test_steps_validations_and_the_test_fit_into_the_time(
    every: int, chosen: tuple[str, ...], seconds: float, fitted: dict[str, int]
) -> None:
    measured = Pace(step=0.1, validation=1.0, test=140.0)
    run = of_run(training__validate_every=every, **TIME)
    found = fitting_steps(run, dict.fromkeys(chosen, 0), measured, seconds / PLANNED)
    assert found.keys() == fitted.keys()
    assert found == fitted
    steps = found["trainer.max_steps"]
    taken = 0.1 * steps + steps // found.get("training.validate_every", every) + 1.0 + 140.0
    assert taken <= seconds or seconds == 100


def test_steps_that_fit_stay_as_they_are() -> None:
    assert fitting_steps(of_run(trainer__max_steps=20), {}, Pace(0.1, 1.0, 1.0), 1000) == {}
    assert fitting_steps(of_run(trainer__max_steps=2000), {}, Pace(1.0, 0.0, 0.0), 100, done=5) == {
        "trainer.max_steps": 5 + int(100 * PLANNED)
    }
