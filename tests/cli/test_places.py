"""Results are not written to impossible places, or over a model."""

import os
import re
from pathlib import Path

import pytest

from tests.links import needs_links
from tests.processes import posix_only
from transformer.cli.places import check_output_file, check_output_folder
from transformer.config import UsageError


@pytest.mark.parametrize(
    ("name", "suffixes", "message"),
    [
        ("", [], "is a folder: give a file in it"),
        ("report.txt", [".json"], "must end in .json"),
        ("pairs.tsv", [".html", ".png"], "must end in .html or .png"),
        ("model.Safetensors", [], "has the name of a model"),
        ("early/checkpoints/best.ckpt", [], "has the name of a model"),
        ("early/translator.safetensors", [".safetensors"], "must stay unchanged"),
    ],
)
def test_results_are_not_written_over_models(runs: Path, name: str, suffixes: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"--alignments {re.escape(str(runs / name))}.* {message}"):
        check_output_file(str(runs / name), suffixes, key="--alignments")


@needs_links
def test_results_are_not_written_over_a_model_through_a_link(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "english.txt").symlink_to(runs / "early" / "checkpoints" / "last.ckpt")
    with pytest.raises(UsageError, match=r"english.txt is a run's own model, which must stay unchanged"):
        check_output_file(str(tmp_path / "english.txt"))


def test_a_place_below_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=re.escape(f"--output {tmp_path / 'file'} is a file: give a folder")):
        check_output_folder(str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"^--alignments .*file is a file, not a folder"):
        check_output_file(str(tmp_path / "file" / "new"), key="--alignments")
    for check in (check_output_file, check_output_folder):
        place = tmp_path / "file" / "new" / "x"
        with pytest.raises(
            UsageError, match=re.escape(f"--output {place}: {tmp_path / 'file'} is a file, not a folder")
        ):
            check(str(place))


@needs_links
def test_a_runs_model_that_lies_elsewhere_by_a_link_is_not_written_over(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "stored").touch()
    model = runs / "early" / "translator.safetensors"
    model.symlink_to(tmp_path / "stored")
    with pytest.raises(UsageError, match=r"translator\.safetensors is a run's own model, which must stay unchanged"):
        check_output_file(str(model), [".safetensors"])


@needs_links
def test_a_link_is_followed_to_the_place_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file" / "new")
    with pytest.raises(UsageError, match=r"--output .*link: .*file is a file, not a folder"):
        check_output_file(str(tmp_path / "link"))


@pytest.mark.parametrize("named", ["page.html", ""])
def test_a_file_or_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.html").touch()
    check_output_file(str(tmp_path / "page.html"))
    # Not by its mode, because root may write anywhere.
    monkeypatch.setattr(os, "access", lambda place, mode: mode == os.R_OK or place != tmp_path / named)
    with pytest.raises(UsageError, match=r"--output .*page\.html cannot be written: give another place"):
        check_output_file(str(tmp_path / "page.html"))


@posix_only
def test_a_stream_needs_no_folder_that_takes_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("wb") as log:  # --output /dev/stdout > log; log may be gone or elsewhere
        stream = f"/dev/fd/{log.fileno()}"
        monkeypatch.setattr(os, "access", lambda place, mode: str(place) == stream)
        check_output_file(stream)


@pytest.mark.parametrize("root", ["/", "/tmp/.."])
def test_the_root_is_a_folder(root: str) -> None:
    if os.access(root, os.W_OK):
        check_output_folder(root)
    else:
        with pytest.raises(UsageError, match="cannot be written"):
            check_output_folder(root)


def test_results_are_written_where_no_model_is(runs: Path) -> None:
    check_output_file(str(runs / "early" / "english.txt"))
    check_output_file(str(runs / "early" / "english.PNG"), [".png"])
    check_output_file(str(runs / "early" / "english.safetensors"), [".safetensors"])
    check_output_file(str(runs / "translator.safetensors"), [".safetensors"])
    if os.name == "posix":
        check_output_file("/dev/stdout")
