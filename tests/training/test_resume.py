"""Which settings a resumed run must keep, which may change and are said, and which do not matter."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.runs import settings
from transformer.config import UsageError, from_dict
from transformer.device import MachineSettings
from transformer.training.resume import (
    changed_settings,
    check_resumption,
    explain_restoring,
    learning_rate,
    numerics,
    restore_numerics,
)

DIGESTS = {"train": "1", "validation": "2", "synthetic": "none", "test": "4"}


def run_settings(digests: dict[str, str] = DIGESTS, **changes: Any) -> dict[str, Any]:
    """What a checkpoint says of a run; `a__b=x` sets a.b."""
    return settings(Path("corpus"), **changes) | {"digests": digests, "numerics": numerics("cpu")}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.averaging.kind", "last"),
        ("data.source_language", "fr"),
        ("data.target_language", "fr"),
        ("data.max_length", 41),
        ("data.direction_temperature", 2.0),
        ("data.synthetic_ratio", 0.5),
        ("data.synthetic_tag", True),
    ],
)
def test_what_would_make_a_different_run_cannot_change(key: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^a resumed run cannot change {key}=.* .was .*: leave that out, or start a"):
        changed_settings(run_settings(), run_settings(**{key.replace(".", "__"): value}))


@pytest.mark.parametrize("names", [["train"], ["validation"], ["train", "synthetic"]])
def test_files_that_were_trained_on_cannot_change(names: list[str]) -> None:
    other = DIGESTS | dict.fromkeys(names, "9")
    with pytest.raises(UsageError, match=f"^the files of {' and '.join(names)} are not those that the run was trained"):
        changed_settings(run_settings(), run_settings(other))


def test_a_corpus_may_lie_elsewhere_and_have_other_tests() -> None:
    moved = {"name": "x", "directory": "x", "pairs": "x", "train": "x", "validation": "x", "test": "x", "cache": "x"}
    moved |= {"url": "x", "sha256": {"x": "x"}, "columns": [2, 1], "extra_tests": {"news": "x"}, "synthetic": ["x"]}
    tests = {"test": "9", "news": "5"}
    now = run_settings(DIGESTS | tests, **{f"data__{key}": value for key, value in moved.items()})
    assert changed_settings(run_settings(), now) == ["the files of test", "the files of news"]


@pytest.mark.parametrize("trainer", [{"max_steps": -1}, {"max_epochs": 2}, {"max_time": "00:00:01:00"}])
def test_a_rate_that_depends_on_time_or_epochs_is_not_foretold(trainer: dict[str, Any]) -> None:
    plain = run_settings()
    assert learning_rate(plain, 3) is not None
    assert learning_rate(plain | {"trainer": plain["trainer"] | trainer}, 3) is None


def test_a_run_goes_on_where_it_was_and_says_once_what_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    saved = {"settings": run_settings(), "progress": {"steps": 20}, "rows": 7}
    for is_first in (False, True):  # of its processes
        point = check_resumption(saved, run_settings(training__patience=9), print_changes=is_first)
        assert (point.rows, point.steps) == (7, 20)
        assert capsys.readouterr().err == ("changed: training.patience=9 (was 50)\n" if is_first else "")


def test_a_run_keeps_its_matmul_precision_unless_another_is_typed_or_its_device_is() -> None:
    saved = {"settings": {"numerics": numerics("cpu") | {"matmul_precision": "medium"}}}
    free = from_dict(MachineSettings, {"threads": 1, "matmul_precision": None, "attention": None}, "machine")
    typed = replace(free, matmul_precision="high")
    assert restore_numerics(free, "cpu", saved) == replace(free, matmul_precision="medium")
    assert restore_numerics(typed, "cpu", saved) == typed
    assert restore_numerics(free, "cpu", None) == free
    saved["settings"]["numerics"]["device"] = "cuda"
    assert restore_numerics(free, "cpu", saved) == free


def fail() -> None:
    raise KeyError("layers")


def training_step(step: Callable[[], None]) -> None:
    step()


def test_only_what_fails_while_states_are_restored_is_blamed_on_the_checkpoint() -> None:
    path = Path("run", "checkpoints", "last.ckpt")
    with (
        pytest.raises(ValueError, match=r"^run.checkpoints: no run can continue from these .* \(KeyError: 'layers'\)$"),
        explain_restoring(path, lambda: False),
    ):
        fail()
    with pytest.raises(KeyError), explain_restoring(path, lambda: True):
        fail()
    with pytest.raises(KeyError), explain_restoring(None, lambda: False):
        fail()
    with pytest.raises(KeyError), explain_restoring(path, lambda: False):
        training_step(fail)
