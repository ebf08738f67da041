"""Attacks with hostile folders of runs that once worked are tried again."""

import os
import shutil
from pathlib import Path

import pytest

from tests.links import needs_links, needs_pipes
from tests.processes import posix_only
from tests.reliability import report
from tests.reliability.children import in_child
from tests.reliability.lying_folders import LIES, real_run, snapshot, try_folders
from tests.scripts.running import script
from transformer.files import read_file
from transformer.run import Run

pytestmark = [posix_only, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, a copy of it, its corpus and cache, and files that nobody may change."""
    return real_run(tmp_path_factory.mktemp("home"))


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Path:
    """A copy of the run, for a test to change."""
    return Path(shutil.copytree(home / "run", tmp_path / "run"))


def test_a_run_is_resumed_by_one_process_at_a_time(home: Path, run: Path) -> None:
    before = snapshot(run)
    with Run(run).lock():
        done = script("train", f"resume={run}", cwd=home)
    assert done.returncode == 1
    assert "is in use by another process" in done.stderr.splitlines()[-1]
    assert {path: seen for path, seen in snapshot(run).items() if not path.endswith(".lock")} == {
        path: seen for path, seen in before.items() if not path.endswith(".lock")
    }


@needs_links
@pytest.mark.parametrize(
    "name",
    ["config.yaml", "evaluation.json", ".lock", "metrics.csv", "checkpoints", "checkpoints/last.ckpt", "attention"],
)
@pytest.mark.parametrize("target", ["victim", "folder", "new"])
def test_a_link_where_a_run_writes_is_refused_before_anything_is_written(
    home: Path, run: Path, name: str, target: str
) -> None:
    path = run / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(home / "outside" / target)
    with pytest.raises(ValueError, match=f"{name} is a link: a run is only written"):
        Run(run).check_entries()


@needs_links
@pytest.mark.parametrize("folder", ["checkpoints", "attention", "tensorboard"])
def test_a_link_in_a_folder_that_a_run_fills_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "x").symlink_to("elsewhere")
    with pytest.raises(ValueError, match=f"{folder}/x is a link: a run is only written"):
        Run(tmp_path).check_entries()


@needs_pipes
def test_a_pipe_in_a_folder_is_refused_and_not_waited_for(run: Path) -> None:
    (run / "config.yaml").unlink()
    os.mkfifo(run / "config.yaml")
    with pytest.raises(ValueError, match=r"config\.yaml cannot be read: it is no file"):
        read_file(run / "config.yaml")
    with pytest.raises(ValueError, match=r"config\.yaml is no file"):
        Run(run).check_entries()


@needs_links
def test_a_link_of_the_user_beside_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "my photos").symlink_to("/")
    Run(tmp_path).check_entries()
    assert set(Run.FOLDERS) < set(Run.WRITTEN)


@pytest.mark.long
def test_hostile_folders_harm_nothing_start_nothing_and_get_one_line(home: Path) -> None:
    lost = in_child(try_folders, home, list(LIES), seconds=600)
    report(
        "folders that lie harm nothing, start nothing and get one line from each of five commands", len(LIES) - 1, lost
    )
