"""The folder of a run is the one that is meant: a new one, the newest, the one to resume."""

import errno
import json
import os
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.processes import posix_only
from transformer.cli import PROJECT, sweeps
from transformer.cli.runs import (
    check_init_from,
    check_new_run,
    dated_folder,
    find_resumable,
    newest_run,
    remove_empty_folders,
    training_in,
)
from transformer.config import UsageError
from transformer.evaluation.run_files import remove_run
from transformer.files import LOCK, atomic_file
from transformer.signals import Interrupted


def test_the_newest_run_may_be_a_trial_of_a_sweep(runs: Path) -> None:
    assert newest_run(runs) == runs / "sweep" / "0"
    os.utime(runs / "early" / "checkpoints" / "last.ckpt")
    assert newest_run(runs) == runs / "early"


def test_a_run_is_resumed_by_its_folder_by_a_checkpoint_or_as_the_last(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs / "later"
    monkeypatch.chdir(runs.parent)
    for name in (run, run / "checkpoints" / "last.ckpt", Path("runs", "later")):
        assert find_resumable(str(name), runs) == (run, run / "checkpoints" / "last.ckpt")
    assert find_resumable("last", runs)[0] == runs / "sweep" / "0"


@posix_only
def test_a_run_that_a_link_names_keeps_that_name_as_its_checkpoints_have_it(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runs / "later")
    assert find_resumable(str(tmp_path / "link"), runs)[0] == tmp_path / "link"


def test_what_cannot_be_resumed_is_refused_in_one_line(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.ckpt").write_text("", encoding="utf-8")
    for resume, message in (
        ("nix", "resume=nix: no .*nix; give a run's folder"),
        (str(runs), r"no .*last.ckpt; give a run's folder"),
        (str(tmp_path / "bare.ckpt"), "checkpoints of a run; give the run's folder"),
    ):
        with pytest.raises(UsageError, match=message):
            find_resumable(resume, runs)


def test_a_folder_of_the_checkout_can_be_interpolated() -> None:
    assert OmegaConf.create({"runs": "${project:runs}"}).runs == str(PROJECT / "runs")


def test_a_folder_is_named_by_the_time_the_name_and_what_it_holds(tmp_path: Path) -> None:
    folder = Path(dated_folder(str(tmp_path), "wide", "_sweep"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_wide_sweep", folder.name)


def test_a_name_with_a_slash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name=a/b ends the name of a folder: it has no / in it"):
        dated_folder(str(tmp_path), "a/b")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("several", ["[early,sweep/0]", "early,sweep/0", "[early,nothing]"])
def test_training_begins_with_one_model_and_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch, several: str) -> None:
    monkeypatch.chdir(runs)
    with pytest.raises(UsageError, match=rf"^init_from={re.escape(several)}: training begins with one model: name"):
        check_init_from(several)


def test_a_trial_begins_without_what_an_earlier_sweep_has_left(trial: Path) -> None:
    (trial / "checkpoints").mkdir()
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "translator.safetensors", "test.json", "notes.txt"):
        (trial / name).touch()
    check_new_run()
    with training_in(trial):
        assert (trial / "translator.safetensors").exists(), "its corpus may yet fail"
        remove_run(trial)
        assert {path.name for path in trial.iterdir()} == {LOCK, "notes.txt"}


@posix_only
def test_an_outcome_that_the_disk_does_not_take_whole_is_none(trial: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sweeps._record({"test/bleu": 34.25}, "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(trial.iterdir()) == []
    sweeps._record({"test/bleu": 34.25}, "")
    assert json.loads((trial / "trial.json").read_text(encoding="utf-8"))["results"] == {"test/bleu": 34.25}
    before = sweeps.outcomes(trial)
    os.utime(trial / "trial.json", (1, 1))
    assert sweeps.outcomes(trial).keys() == before.keys()
    assert sweeps.outcomes(trial) != before, "the same outcome of a later sweep is a new one"


def test_a_trial_is_refused_the_folder_of_something_else_and_of_its_first_run(trial: Path) -> None:
    (trial / "README.md").touch()
    with pytest.raises(UsageError, match=r"README.md does not belong to a run and would be overwritten"):
        check_new_run()
    (trial / "checkpoints").mkdir()
    (trial / "checkpoints" / "last.ckpt").touch()
    for init_from in (trial, trial / "checkpoints" / "last.ckpt"):
        with pytest.raises(UsageError, match=r"lies in the folder of a trial, which begins anew: choose another hydra"):
            check_init_from(str(init_from))


def test_a_run_is_refused_the_folder_of_something_else_and_of_another_run(single: Path) -> None:
    (single / "README.md").touch()
    with pytest.raises(
        UsageError, match=r"README\.md does not belong to a run .*: choose a new folder, hydra\.run\.dir=PA"
    ):
        check_new_run()
    (single / "checkpoints").mkdir()
    (single / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(UsageError, match=r"holds a run: resume=.* continues it; else choose another hydra\.run\.dir$"):
        check_new_run()


def test_a_run_without_a_checkpoint_gives_its_folder_to_the_next(single: Path) -> None:
    for name in (LOCK, "metrics.csv"):
        (single / name).touch()
    check_new_run()


@posix_only
def test_a_new_run_does_not_write_through_a_link(single: Path) -> None:
    (single / "metrics.csv").symlink_to("elsewhere")
    with pytest.raises(ValueError, match=r"metrics\.csv is a link: nothing is written into a run's folder"):
        check_new_run()


def test_a_run_to_begin_with_that_is_missing_is_told_with_its_experiment() -> None:
    with pytest.raises(
        UsageError, match=r"no such run or checkpoint; train it first: experiment=pairs_2k hydra\.run\.dir="
    ):
        check_init_from("runs/nowhere/pairs_2k")
    with pytest.raises(UsageError, match=r"^init_from=.*nix: no such run or checkpoint; train it first$"):
        check_init_from("runs/nowhere/nix")


def test_a_run_that_is_stopped_says_how_to_go_on_if_it_can(tmp_path: Path) -> None:
    def stopped() -> str:
        with pytest.raises(Interrupted) as caught, training_in(tmp_path):
            raise Interrupted(15)
        return str(caught.value)

    assert stopped() == "stopped by SIGTERM; nothing was saved yet"
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    assert stopped() == f"stopped by SIGTERM; continue with: python scripts/train.py resume={tmp_path}"


def test_a_run_whose_disk_is_full_says_how_to_go_on_if_it_can(tmp_path: Path) -> None:
    def stopped() -> str:
        with (
            pytest.raises(OSError, match="cannot be written") as caught,
            training_in(tmp_path),
            atomic_file(tmp_path / "curves.png"),
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return str(caught.value)

    full = f"{tmp_path / 'curves.png'} cannot be written: {os.strerror(errno.ENOSPC)}"
    assert stopped() == full
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    assert stopped() == f"{full}; continue with: python scripts/train.py resume={tmp_path}"
    with pytest.raises(FileNotFoundError, match=r"^no such file$"), training_in(tmp_path):
        raise FileNotFoundError("no such file")


def test_folders_of_a_refused_run_go_again_with_those_above_but_for_what_was_there(tmp_path: Path) -> None:
    folder = Path(dated_folder(str(tmp_path / "new" / "runs"), "refused"))
    (folder / LOCK).touch()
    remove_empty_folders()
    assert list(tmp_path.iterdir()) == []
    folder = Path(dated_folder(str(tmp_path / "runs"), "begun"))
    (folder / "notes.txt").touch()
    remove_empty_folders()
    assert (folder / "notes.txt").exists()
