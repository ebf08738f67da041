"""Folders of runs are found as they are named: the newest, the best checkpoint, the one to resume."""

import json
import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import transformer.cli.compose  # noqa: F401  (registers what the YAML files call)
from tests.processes import posix_only
from transformer.cli import PROJECT
from transformer.cli.runs import (
    announce_checkpoint,
    check_output_file,
    check_output_folder,
    dated_folder,
    find_checkpoint,
    find_checkpoints,
    find_resumable,
    newest_run,
)
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


def finish(run: Path, time: float, bleu: float = 34.25) -> Path:
    """What a run leaves at its end, as far as choosing one needs it."""
    description = json.dumps({"source_language": "de", "target_language": "en"})
    header = json.dumps({"__metadata__": {"translator": description}}).encode()
    model = run / "translator.safetensors"
    model.write_bytes(len(header).to_bytes(8, "little") + header)
    (run / "test.json").write_text(json.dumps({"test": {"bleu": bleu, "signatures": {}}}))
    os.utime(model, (time, time))
    return model


def test_the_newest_run_may_be_a_trial_of_a_sweep(runs: Path) -> None:
    assert newest_run(runs) == runs / "sweep" / "0"
    os.utime(runs / "early" / "checkpoints" / "last.ckpt")
    assert newest_run(runs) == runs / "early"


def test_a_checkpoint_is_a_file_or_the_best_of_a_run(runs: Path, tmp_path: Path) -> None:
    last = runs / "early" / "checkpoints" / "last.ckpt"
    assert find_checkpoint(str(last), runs) == find_checkpoint(str(runs / "early"), runs) == last
    for better in ("checkpoints/best.ckpt", "translator.safetensors"):
        (runs / "early" / better).write_text("")
        assert find_checkpoint(str(runs / "early"), runs) == runs / "early" / better
    for value, message in (("nix", "no such file"), (str(tmp_path), "has none of"), (None, "no run in")):
        with pytest.raises(FileNotFoundError, match=message):
            find_checkpoint(value, tmp_path / "empty")


def test_without_checkpoint_the_run_that_finished_last_is_taken(runs: Path) -> None:
    with pytest.raises(UsageError, match=r"no run in .* has finished: checkpoint=.*sweep/0 takes what that one has"):
        find_checkpoint(None, runs)
    first, second = finish(runs / "early", 1e9 - 9), finish(runs / "sweep" / "0", 1e9 - 8)
    assert find_checkpoint(None, runs) == second
    os.utime(first)
    assert find_checkpoint(None, runs) == first


def test_the_run_that_was_taken_is_said_with_its_languages_and_score(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    model = finish(runs / "early", 1e9 - 1.5)
    announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
    facts = "newest finished run, de → en, test bleu 34.2, 2 newer not finished"
    assert capsys.readouterr().err == f"checkpoint=runs/early ({facts})\n"
    announce_checkpoint({"checkpoint": "runs/early", "runs": str(runs)}, model)
    assert capsys.readouterr().err == ""
    for damaged in (b"", b"\xff" * 40, (9).to_bytes(8, "little") + b'{"a": [1]'):
        model.write_bytes(damaged)  # whoever loads it says so
        announce_checkpoint({"checkpoint": None, "runs": str(runs)}, model)
        assert capsys.readouterr().err == "checkpoint=runs/early (newest finished run)\n"


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
        (str(tmp_path / "bare.ckpt"), "checkpoints of a run; give the run's folder"),
    ):
        with pytest.raises(UsageError, match=message):
            find_resumable(resume, runs)


def test_a_folder_of_the_checkout_can_be_interpolated() -> None:
    assert OmegaConf.create({"runs": "${project:runs}"}).runs == str(PROJECT / "runs")


@posix_only
def test_a_pipe_in_the_place_of_weights_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "best.ckpt").touch()
    os.mkfifo(tmp_path / "run" / "translator.safetensors")
    checkpoint = find_checkpoint(None, tmp_path)
    announce_checkpoint({"checkpoint": None, "runs": str(tmp_path)}, checkpoint)
    assert capsys.readouterr().err.endswith("run (newest finished run)\n")


def test_one_of_several_checkpoints_may_hold_a_comma_in_quotes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a,b.safetensors", "c.safetensors")]
    for path in paths:
        path.touch()
    assert find_checkpoints(f"['{paths[0]}', {paths[1]}]", tmp_path) == paths


def test_several_models_are_refused_where_one_is_needed(runs: Path) -> None:
    for value in (f"[{runs}/early,{runs}/later]", f"{runs}/early,{runs}/later"):
        with pytest.raises(UsageError, match="one model is taken here, not several"):
            find_checkpoint(value, runs)
    with pytest.raises(UsageError, match=r"several models need brackets: checkpoint=\[.*early,.*later\]"):
        find_checkpoints(f"{runs}/early,{runs}/later", runs)
    with pytest.raises(FileNotFoundError, match="no such file or run folder"):
        find_checkpoint(f"{runs}/early,nowhere", runs)


@pytest.mark.parametrize(
    ("name", "suffixes", "message"),
    [
        ("", [], "is a folder: name a file in it"),
        ("report.txt", [".json"], "must end in .json"),
        ("pairs.tsv", [".html", ".png"], "must end in .html or .png"),
        ("model.safetensors", [], "has the name of a model"),
        ("early/checkpoints/best.ckpt", [], "has the name of a model"),
        ("early/translator.safetensors", [".safetensors"], "must stay as it is"),
    ],
)
def test_results_are_not_written_over_models(runs: Path, name: str, suffixes: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"alignments={runs / name}.* {message}"):
        check_output_file(str(runs / name), suffixes, key="alignments")


def test_a_place_below_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for check in (check_output_file, check_output_folder):
        with pytest.raises(UsageError, match=f"output={tmp_path}/file/new/x: {tmp_path}/file is a file, not a folder"):
            check(str(tmp_path / "file" / "new" / "x"))


def test_the_root_is_a_folder() -> None:
    check_output_folder("/tmp/..")
    check_output_folder("/")


def test_a_name_with_a_slash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name=a/b ends the name of a folder: it has no / in it"):
        dated_folder(str(tmp_path), "a/b")
    assert not any(tmp_path.iterdir())


def test_results_are_written_where_no_model_is(runs: Path) -> None:
    check_output_file(str(runs / "early" / "english.txt"))
    check_output_file(str(runs / "early" / "shortlist.safetensors"), [".safetensors"])
    check_output_file(str(runs / "translator.safetensors"), [".safetensors"])
    check_output_file("/dev/stdout")
