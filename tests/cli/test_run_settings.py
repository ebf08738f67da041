"""What of a composed configuration is a run's, to be read from anywhere, and what stays with the command line."""

from pathlib import Path
from typing import Any

import pytest

from tests.factories import composed
from transformer.cli.settings import run_settings
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
