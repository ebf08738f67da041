"""The settings that a resumed run must keep, those that may change with a notice, and those that do not matter."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.runs import settings
from transformer.config import UsageError, from_dict
from transformer.machine import MachineSettings
from transformer.training.checks import check_resumption, numerics, restore_numerics

DIGESTS = {"train": "1", "validation": "2", "synthetic": "none", "test": "4"}


def run_settings(digests: dict[str, str] = DIGESTS, **changes: Any) -> dict[str, Any]:
    """The settings of a run in its checkpoint; `a__b=x` sets a.b."""
    return settings(Path("corpus"), **changes) | {"digests": digests}


SAVED = {"settings": run_settings(), "progress": {"step": 20}}


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
def test_settings_that_make_a_different_run_cannot_change(key: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^a resumed run cannot change {key}=.* .was .*: leave that out, or start a"):
        check_resumption(SAVED, run_settings(**{key.replace(".", "__"): value}))


@pytest.mark.parametrize("names", [["train"], ["validation"], ["train", "synthetic"]])
def test_files_that_were_trained_on_cannot_change(names: list[str]) -> None:
    other = DIGESTS | dict.fromkeys(names, "9")
    with pytest.raises(UsageError, match=f"^the files of {' and '.join(names)} are not those that the run was trained"):
        check_resumption(SAVED, run_settings(other))


def test_a_corpus_may_lie_elsewhere_and_have_other_tests() -> None:
    moved = {"directory": "x", "pairs": "x", "train": "x", "validation": "x", "test": "x", "cache": "x"}
    moved |= {"extra_tests": {"news": "x"}, "synthetic": ["x"]}
    tests = {"test": "9", "news": "5"}
    now = run_settings(DIGESTS | tests, **{f"data__{key}": value for key, value in moved.items()})
    assert check_resumption(SAVED, now) == ["the files of test", "the files of news"]


def test_a_corpus_may_be_described_otherwise() -> None:
    described = {"name": "x", "url": "x", "sha256": {"x": "x"}, "columns": [2, 1], "split": [0.1, 0.1]}
    now = run_settings(**{f"data__{key}": value for key, value in described.items()})
    assert "data.name=x (was files)" in check_resumption(SAVED, now)


def test_the_settings_that_have_changed_are_named() -> None:
    saved = {"settings": run_settings(), "progress": {"step": 20}}
    assert check_resumption(saved, run_settings(training__patience=9)) == ["training.patience=9 (was 50)"]
    with pytest.raises(UsageError, match=r"trainer\.max_steps=19: the run has done 20 steps already"):
        check_resumption(saved, run_settings(trainer__max_steps=19))


def test_a_run_keeps_its_matmul_precision_unless_another_is_typed_or_its_device_is() -> None:
    saved = {"settings": {"numerics": numerics("cpu") | {"matmul_precision": "medium"}}}
    free = from_dict(MachineSettings, {"threads": 1, "matmul_precision": None, "attention": None}, "machine")
    typed = replace(free, matmul_precision="high")
    assert restore_numerics(free, "cpu", saved) == replace(free, matmul_precision="medium")
    assert restore_numerics(typed, "cpu", saved) == typed
    assert restore_numerics(free, "cpu", None) == free
    saved["settings"]["numerics"]["device"] = "cuda"
    assert restore_numerics(free, "cpu", saved) == free
