"""The right folder of a run is found, and files of others in a run's folder do no harm."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.links import needs_links
from tests.processes import posix_only
from transformer.cli.runs import (
    check_init_from,
    check_new_run,
    find_resumable,
    remove_if_empty,
    training_in,
)
from transformer.config import UsageError
from transformer.data.splitting import corpus_of
from transformer.files import atomic_file, read_file
from transformer.run import Run
from transformer.signals import Interrupted


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stopped_run(folder: Path) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.ckpt").touch()
    return folder


def test_the_newest_run_may_be_a_trial_of_a_sweep(runs: Path) -> None:
    assert Run.latest().folder.absolute() == runs / "sweep" / "0"
    os.utime(runs / "early" / "checkpoints" / "last.ckpt")
    assert Run.latest().folder.absolute() == runs / "early"


def test_a_run_is_resumed_by_its_folder_by_a_checkpoint_or_as_the_last(runs: Path) -> None:
    run = runs / "later"
    for name in (run, run / "checkpoints" / "last.ckpt", Path("runs", "later")):
        assert find_resumable(str(name)) == (run, run / "checkpoints" / "last.ckpt")
    assert find_resumable("last")[0] == runs / "sweep" / "0"


@posix_only
def test_a_run_that_a_link_names_keeps_that_name_as_its_checkpoints_have_it(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runs / "later")
    assert find_resumable(str(tmp_path / "link"))[0] == tmp_path / "link"


def test_what_cannot_be_resumed_is_refused_by_name(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.ckpt").touch()
    for resume in ("nix", "runs", "bare.ckpt"):
        with pytest.raises(UsageError, match=f"^resume={resume}: "):
            find_resumable(resume)


def test_a_new_run_is_refused_the_folder_of_something_else_and_of_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    check_new_run(folder, is_trial=False)
    folder.mkdir()
    (folder / "README.md").touch()
    for is_trial in (False, True):
        with pytest.raises(UsageError, match=r"README\.md does not belong to a run"):
            check_new_run(folder, is_trial)
    stopped_run(folder)
    with pytest.raises(UsageError, match="resume=folder "):
        check_new_run(folder, is_trial=False)
    check_new_run(folder, is_trial=True)  # the trial replaces the run


def test_a_run_without_a_checkpoint_gives_its_folder_to_the_next(tmp_path: Path) -> None:
    for name in (".lock", "metrics.csv"):
        (tmp_path / name).touch()
    check_new_run(tmp_path, is_trial=False)


def test_a_repeated_trial_removes_the_earlier_run_and_nothing_else(tmp_path: Path) -> None:
    trial = stopped_run(tmp_path / "trial")
    for name in ("checkpoints/best.ckpt", "translator.safetensors", "test.json", "notes.txt"):
        (trial / name).touch()
    with training_in(trial):
        Run(trial).clear()
        assert {path.name for path in trial.iterdir()} == {".lock", "notes.txt"}


def test_a_missing_run_to_begin_with_is_reported_with_its_experiment(tmp_path: Path) -> None:
    check_init_from(None)
    check_init_from(str(tmp_path))
    with pytest.raises(UsageError, match=r"^init_from=.*experiment=multi30k_cpu$"):
        check_init_from("runs/nowhere/multi30k_cpu")
    with pytest.raises(UsageError, match=r"^init_from=runs.nowhere.nix: (?!.*experiment)"):
        check_init_from("runs/nowhere/nix")


def test_a_stopped_run_prints_how_to_continue_if_possible(tmp_path: Path) -> None:
    def stopped() -> str:
        with pytest.raises(Interrupted) as caught, training_in(tmp_path):
            raise Interrupted(15)
        return str(caught.value)

    assert stopped() == "stopped by SIGTERM; nothing was saved yet"
    stopped_run(tmp_path)
    assert stopped().endswith("continue with: translator train resume=.")


def test_a_run_whose_disk_is_full_prints_how_to_continue_if_possible(tmp_path: Path) -> None:
    def stopped() -> str:
        with pytest.raises(OSError, match="cannot be written") as caught, training_in(tmp_path):  # noqa: SIM117
            with atomic_file(tmp_path / "curves.png"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return str(caught.value)

    assert "resume=" not in (said := stopped())
    assert said.endswith("nothing is saved: hydra.run.dir=PATH (with -m hydra.sweep.dir=PATH) chooses another place")
    stopped_run(tmp_path)
    assert stopped().endswith("continue with: translator train resume=.")
    with pytest.raises(FileNotFoundError, match=r"^no such file$"), training_in(tmp_path):
        raise FileNotFoundError("no such file")


def test_the_folder_of_a_refused_run_goes_again_but_not_what_others_have_left(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / ".lock").touch()
        remove_if_empty(tmp_path / name)

    refuse("runs/refused")
    assert [*tmp_path.iterdir()] == []
    refuse("mine/refused")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]
    (tmp_path / "runs" / "begun").mkdir(parents=True)
    (tmp_path / "runs" / "begun" / "notes.txt").touch()
    refuse("runs/begun")
    refuse("runs/refused")
    assert {path.name for path in (tmp_path / "runs").rglob("*")} == {"begun", "notes.txt", ".lock"}


# The files of another user's run.


@needs_links
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("data: {}", encoding="utf-8")
    (tmp_path / "config.yaml").symlink_to("secret")
    with pytest.raises(ValueError, match=r"config.yaml cannot be read: it is a link"):
        read_file(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    "content",
    [
        *("data: &a [*a]", "a: &a [1]\ndata: *a", "[" * 50_000, "data: !!python/name:os.x", "x"),
        *("[]", "format: 3", "format: x", "format: [1]", "format: true", "format: 0"),
    ],
)
def test_a_garbled_config_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.yaml cannot be read") as error:
        corpus_of(Run(tmp_path))
    assert "\n" not in str(error.value)


def test_a_number_to_the_base_60_stays_text(tmp_path: Path) -> None:
    """The other numbers are read as in YAML; a long number to the base 60 would take a minute."""
    for written, read in (("1:30", "1:30"), ("1:" * 40_000 + "1", "1:" * 40_000 + "1"), ("30", 30), ("0x1f", 31)):
        (tmp_path / "config.yaml").write_text(f"seed: {written}\n", encoding="utf-8")
        assert Run(tmp_path).setting("seed") == read


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="it is no file of at most"):
        read_file(tmp_path / "config.yaml")


@posix_only
def test_the_folder_of_a_run_that_another_process_has_begun_stays(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    code = "import sys, pathlib; from transformer.run import Run\nwith Run(pathlib.Path(sys.argv[1])).lock():\n input()"
    with subprocess.Popen([sys.executable, "-c", code, folder], stdin=subprocess.PIPE, text=True) as other:
        while not (folder / ".lock").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        remove_if_empty(folder)
        assert (folder / ".lock").exists()
        other.communicate("\n")
    remove_if_empty(folder)
    assert not folder.exists()
