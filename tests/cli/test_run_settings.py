"""What of a composed configuration is a run's, to be read from anywhere, and what stays with the command line."""

from pathlib import Path
from typing import Any

import pytest

from tests.factories import composed
from tests.processes import posix_only
from transformer.cli.settings import evaluation_settings, run_settings
from transformer.config import UsageError
from transformer.training.config import read_run_settings


def test_the_paths_of_a_run_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = composed("data=files", "cache=c", "init_from=i", "data.train=t")
    config["data"]["extra_tests"] = {"news": "x"}
    settings = run_settings(config)
    data = settings["data"]
    paths = [data["cache"], settings["init_from"], data["train"], data["extra_tests"]["news"]]
    assert paths == [str(tmp_path / name) for name in "citx"]


def test_what_steers_the_command_line_is_no_setting_of_a_run() -> None:
    given = {"runs": "runs", "name": "mine", "resume": "last", "debug": True, "output": "x", "augment": None}
    assert not run_settings(composed() | given).keys() & given.keys()


@pytest.mark.parametrize(
    ("key", "value", "wanted"), [("synthetic", "x", "a list, as data.synthetic="), ("extra_tests", "x", "a group of")]
)
def test_a_text_in_place_of_several_files_is_refused_by_its_key(key: str, value: Any, wanted: str) -> None:
    config = composed()
    config["data"] |= {key: value}
    with pytest.raises(ValueError, match=rf"^data\.{key}=x must be {wanted}"):
        read_run_settings(run_settings(config))


def test_an_ensemble_has_no_folder_of_its_own_for_its_scores(runs: Path) -> None:
    config = composed(name="evaluate") | {"checkpoint": f"[{runs / 'early'},{runs / 'later'}]"}
    with pytest.raises(UsageError, match="an ensemble belongs to no single run: give output=FOLDER for its results"):
        evaluation_settings(config)
    assert evaluation_settings(config | {"output": str(runs / "new")})["output"] == str(runs / "new")


def test_a_run_is_evaluated_in_its_folder_and_by_a_trial_in_that_of_the_trial(
    runs: Path, request: pytest.FixtureRequest
) -> None:
    config = composed(name="evaluate") | {"checkpoint": str(runs / "early")}
    assert evaluation_settings(config)["output"] == str(runs / "early")
    trial = request.getfixturevalue("trial")
    assert evaluation_settings(config)["output"] == str(trial)


@posix_only
def test_a_run_with_a_link_where_scores_are_written_is_not_evaluated_in_place(runs: Path) -> None:
    (runs / "early" / "evaluation.json").symlink_to("elsewhere")
    with pytest.raises(ValueError, match=r"evaluation\.json is a link: nothing is written into a run's folder"):
        evaluation_settings(composed(name="evaluate") | {"checkpoint": str(runs / "early")})
