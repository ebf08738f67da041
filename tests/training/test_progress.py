"""The output of a run while it trains, and its files with and without a test."""

import csv
import json
import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from tests.data.corpora import write
from tests.reliability.runs import corpus, last, settings, term, train, trouble
from transformer.evaluation import evaluate
from transformer.signals import Interrupted
from transformer.training import reporter


def test_a_file_sees_a_line_of_progress_between_validations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporter, "HEARTBEAT", 0.0)
    train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=4))
    said = capsys.readouterr().err
    for step in (1, 2, 3, 4):
        assert re.search(rf"^step {step} of 4   training loss \d+\.\d\d   .*about \d:\d\d left$", said, re.MULTILINE)
    assert len(re.findall("^step .* validation loss ", said, re.MULTILINE)) == 1
    assert "testing: test (10 sentences)" in said
    # A run of few steps also has a time per step.
    assert json.loads((tmp_path / "run" / "test.json").read_text(encoding="utf-8"))["cost"]["ms/step"] > 0


@pytest.mark.long
def test_a_line_of_progress_says_how_much_is_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporter, "HEARTBEAT", 0.0)
    monkeypatch.setattr(evaluate, "CHUNK", 1)
    home = corpus(tmp_path)
    for language in ("de", "en"):
        lines = (home / f"train.{language}").read_text(encoding="utf-8").splitlines()
        write(home, f"test.{language}", 4 * lines)  # three chunks: each has an eighth of the tokens of a batch
    train(tmp_path / "run", settings(home, trainer__max_steps=1))
    lines = re.findall(r"^tested (\d+) of (\d+) sentences   .* left$", capsys.readouterr().err, re.MULTILINE)
    assert [int(done) for done, _ in lines] == [256, 512, 696]
    assert {total for _, total in lines} == {"696"}


@pytest.mark.long
def test_the_time_left_of_a_run_that_goes_on_counts_the_steps_done_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, run = settings(corpus(tmp_path), trainer__max_steps=8, test=False), tmp_path / "run"
    with trouble(4, term), pytest.raises(Interrupted):
        train(run, plain)
    capsys.readouterr()
    monkeypatch.setattr(reporter, "HEARTBEAT", 0.0)
    clock = count(0.0, 7.0)
    monkeypatch.setattr(reporter, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    train(run, plain, last(run))
    line = r"^step (\d) of 8   training loss .* (\d+):(\d\d) elapsed, about (\d+):(\d\d) left$"
    said = [[int(one) for one in found] for found in re.findall(line, capsys.readouterr().err, re.MULTILINE)]
    first = said[0][0] - 1
    assert first > 0
    for step, elapsed_minutes, elapsed_seconds, minutes, seconds in said:
        assert 60 * minutes + seconds == (60 * elapsed_minutes + elapsed_seconds) * (8 - step) // (step - first)


@pytest.mark.long
def test_samples_are_shown_where_bleu_is_better_also_than_before_a_run_went_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = {"training__learning_rate": 1e-12, "training__validate_every": 1, "training__samples": 3, "test": False}
    home, run = corpus(tmp_path), tmp_path / "run"
    for steps, shown in ((2, 3), (3, 0)):
        train(run, settings(home, trainer__max_steps=steps, **same), last(run))
        assert len(re.findall("^  → ", capsys.readouterr().err, re.MULTILINE)) == shown


def test_the_bar_of_a_finished_run_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=4))
    shown = re.sub(r"\x1b\[[\d;]*[a-zA-Z]", "", capsys.readouterr().err)
    assert re.findall(r"(\d)/4", shown)[-1] == "4"
    assert re.findall(r"(training|validating \d+%) +[━-]", shown)[-1] == "training"  # no longer validating


@pytest.mark.long
def test_a_run_without_validation_can_be_resumed(tmp_path: Path) -> None:
    changes = {"test": False, "trainer__limit_val_batches": 0, "training__averaging__kind": "none"}
    home, run = corpus(tmp_path), tmp_path / "run"
    train(run, settings(home, trainer__max_steps=3, **changes))
    train(run, settings(home, trainer__max_steps=5, **changes), last(run))
    train(tmp_path / "whole", settings(home, trainer__max_steps=5, **changes))
    found, whole = (load_file(folder / "translator.safetensors") for folder in (run, tmp_path / "whole"))
    assert all(torch.equal(found[name], whole[name]) for name in whole)


@pytest.mark.long
def test_a_run_resumed_without_validation_says_which_weights_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, run = corpus(tmp_path), tmp_path / "run"
    train(run, settings(home, trainer__max_steps=2, test=False))
    assert "not validated" not in capsys.readouterr().err
    train(run, settings(home, trainer__max_steps=4, test=False, trainer__limit_val_batches=0), last(run))
    assert "the best validation so far are kept (trainer.limit_val_batches=0" in capsys.readouterr().err
    best = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    kept = load_file(run / "translator.safetensors")
    assert all(torch.equal(kept[name], best[f"model.{name}"]) for name in kept if f"model.{name}" in best)
    # Resumed once more with the printed command, it validates the last step.
    train(run, settings(home, trainer__max_steps=4, test=False, trainer__limit_val_batches=1.0), last(run))
    said = capsys.readouterr().err
    assert "not validated" not in said
    assert "step 4 of 4   validation loss" in said


@pytest.mark.long
def test_a_run_without_its_test_is_tested_when_it_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, untested = tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=3, test=False)
    train(run, untested)
    weights = load_file(run / "translator.safetensors")
    assert not (run / "test.json").exists()
    assert "testing" not in capsys.readouterr().err
    train(run, untested | {"test": True}, last(run))
    assert "no step is left: 3 are done (a larger trainer.max_steps or" in capsys.readouterr().err
    again = load_file(run / "translator.safetensors")
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    assert json.loads((run / "test.json").read_text(encoding="utf-8"))["test"]["bleu"] >= 0


@pytest.mark.long
def test_a_better_checkpoint_ends_what_an_earlier_end_of_the_run_has_left(tmp_path: Path) -> None:
    home, run, every = corpus(tmp_path), tmp_path / "run", {"training__validate_every": 1}
    train(run, settings(home, trainer__max_steps=2, **every))
    (run / "evaluation.json").touch()
    left, kept = ["translator.safetensors", "test.json"], ["README.md", "hypotheses.test.txt", "evaluation.json"]
    longer = settings(home, trainer__max_steps=9, **every)
    with trouble(1, term), pytest.raises(Interrupted):  # before the validation
        train(run, longer, last(run))
    assert all((run / name).exists() for name in (*left, *kept))
    with trouble(6, term), pytest.raises(Interrupted):
        train(run, longer, last(run))
    assert not any((run / name).exists() for name in left)
    assert all((run / name).exists() for name in kept)
    train(run, longer, last(run))
    assert all((run / name).exists() for name in (*left, *kept))


@pytest.mark.long
def test_a_row_is_logged_every_n_steps(tmp_path: Path) -> None:
    often = {"loggers": ["csv"], "trainer__log_every_n_steps": 2, "trainer__accumulate_grad_batches": 3, "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=5, **often))
    with (tmp_path / "run" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["train/loss"]]
    assert [row["step"] for row in rows] == ["2", "4"]
    assert all(float(row[f"train/{name}"]) > 0 for row in rows for name in ("loss", "gradient_norm", "learning_rate"))


def test_training_without_an_end_is_not_ended_after_1_000_epochs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"training\.schedule=cosine ends at the last step: set trainer\.max_steps"):
        train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=-1, training__schedule="cosine"))


@pytest.mark.long
@pytest.mark.parametrize(("warmup", "is_said"), [(100_000, True), (1, False)])
def test_a_run_of_little_time_whose_warm_up_takes_most_of_its_steps_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], warmup: int, is_said: bool
) -> None:
    by_time = {"trainer__max_steps": -1, "trainer__max_time": "00:00:00:01", "trainer__limit_val_batches": 0}
    few = {"training__warmup_steps": warmup, "training__averaging__kind": "none", "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), **by_time, **few))
    said = rf"training\.warmup_steps={warmup} is more than a third of [\d,]+ steps"
    assert bool(re.search(said, capsys.readouterr().err)) == is_said


@pytest.mark.long
def test_when_the_clock_ends_a_run_its_learning_rate_has_fallen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporter, "HEARTBEAT", 0.0)
    by_time = {"trainer__max_steps": -1, "trainer__max_time": "00:00:00:02", "training__warmup_steps": 0}
    run, plain = tmp_path / "run", settings(corpus(tmp_path), **by_time, test=False)
    train(run, plain | {"training": plain["training"] | {"validate_every": 100_000}})
    saved = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["optimizer"]["param_groups"][0]["lr"] < plain["training"]["learning_rate"] / 2
    said = capsys.readouterr().err
    assert re.search(r"^step \d+ of \d+   training loss .*at most 0:0\d left$", said, re.MULTILINE)
