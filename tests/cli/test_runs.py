"""Folders of runs are found as they are named: the newest, the best checkpoint, the one to resume."""

import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from transformer.cli import PROJECT
from transformer.cli.runs import find_checkpoint, find_resumable, newest_run
from transformer.config import UsageError


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three stopped runs; the trial of a sweep is the newest."""
    for age, name in enumerate(["sweep/0", "later", "early"]):
        path = tmp_path / "runs" / name / "checkpoints" / "last.ckpt"
        path.parent.mkdir(parents=True)
        path.write_text("", encoding="utf-8")
        os.utime(path, (1e9 - age, 1e9 - age))
    return tmp_path / "runs"


def test_the_newest_run_may_be_a_trial_of_a_sweep(runs: Path) -> None:
    assert newest_run(runs) == runs / "sweep" / "0"
    os.utime(runs / "early" / "checkpoints" / "last.ckpt")
    assert newest_run(runs) == runs / "early"


def test_a_checkpoint_is_a_file_or_the_best_of_a_run_or_the_newest(runs: Path, tmp_path: Path) -> None:
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoint(str(last), runs) == find_checkpoint(str(runs / "early"), runs) == last
    assert find_checkpoint(None, runs) == runs / "sweep" / "0" / "checkpoints" / "last.ckpt"
    for better in ("checkpoints/best.ckpt", "translator.safetensors"):
        (runs / "early" / better).write_text("")
        assert find_checkpoint(str(runs / "early"), runs) == runs / "early" / better
    assert find_checkpoint(None, runs) == runs / "early" / "translator.safetensors"
    for value, message in (("nix", "no such file"), (str(tmp_path), "has none of"), (None, "no run with")):
        with pytest.raises(FileNotFoundError, match=message):
            find_checkpoint(value, tmp_path / "empty")


def test_a_run_is_resumed_by_its_folder_by_a_checkpoint_or_as_the_last(runs: Path) -> None:
    run = runs / "later"
    for name in (run, run / "checkpoints" / "last.ckpt", os.path.relpath(run)):
        assert find_resumable(str(name), runs) == (run, run / "checkpoints" / "last.ckpt")
    assert find_resumable("last", runs)[0] == runs / "sweep" / "0"


def test_what_cannot_be_resumed_is_refused_in_one_line(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.ckpt").write_text("")
    for resume, message in (
        ("nix", "resume=nix: no .*nix; give a run's folder"),
        (str(runs), r"no .*last.ckpt; give a run's folder"),
        (str(tmp_path / "bare.ckpt"), "does not lie in the folder checkpoints of a run"),
    ):
        with pytest.raises(UsageError, match=message):
            find_resumable(resume, runs)


def test_a_folder_of_the_checkout_can_be_interpolated() -> None:
    assert OmegaConf.create({"runs": "${project:runs}"}).runs == str(PROJECT / "runs")
