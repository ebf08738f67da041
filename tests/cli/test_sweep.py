"""A sweep: its trials continue if one fails, no trial changes the next, and the tables are right."""

import csv
import json
import os
import statistics
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest
import torch

from tests.cli.tiny import TINY, few_pairs
from tests.reliability.runs import assert_equal
from tests.scripts.running import ok, script
from transformer.cli.sweep import isolated, write_tables

Done = subprocess.CompletedProcess[str]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows(printed: str, begin: str) -> list[list[str]]:
    """The cells of the last printed table whose first column has this heading."""
    lines = [line.split() for line in printed.splitlines()]
    start = max(place for place, words in enumerate(lines) if words[:1] == [begin])
    return [*takewhile(bool, lines[start + 2 :])]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """The first two of four trials are refused."""
    home = few_pairs(tmp_path_factory.mktemp("home"))
    done = script("train", "-m", *TINY, "hydra.sweep.dir=sweep", "model.heads=7,2", "seed=1,2", cwd=home)
    return home / "sweep", done


def test_the_trials_after_one_that_fails_go_on_and_its_error_stands_in_the_table(swept: tuple[Path, Done]) -> None:
    sweep, done = swept
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    trials = table(sweep / "sweep.csv")
    places = [[one["trial"], one["model.heads"], one["seed"]] for one in trials]
    assert places == [["0", "7", "1"], ["1", "7", "2"], ["2", "2", "1"], ["3", "2", "2"]]
    for number, trial in enumerate(trials):
        failed = number < 2
        assert ("heads=7" in trial["error"], not trial["test/bleu"]) == (failed, failed)
        assert (sweep / str(number) / "translator.safetensors").exists() != failed
    for trial in trials[2:]:
        scores = json.loads((sweep / trial["trial"] / "test.json").read_text(encoding="utf-8"))["test"]
        for name in ("bleu", "chrf", "ter"):
            assert float(trial[f"test/{name}"]) == scores[name]
    assert [row[:3] for row in rows(done.stdout, "trial")] == places
    assert (sweep / "sweep.png").stat().st_size > 5_000


def test_the_summary_of_seeds_is_their_mean_and_standard_deviation(swept: tuple[Path, Done]) -> None:
    sweep, done = swept
    results = [json.loads((sweep / trial / "trial.json").read_text(encoding="utf-8"))["results"] for trial in "23"]
    [row] = table(sweep / "summary.csv")
    assert (row.pop("model.heads"), row.pop("seeds")) == ("2", "2")
    assert row.keys() == results[0].keys()
    for name, cell in row.items():
        numbers = [one[name] for one in results]
        mean, spread = (float(part.replace(",", "")) for part in cell.split(" ± "))
        assert mean == pytest.approx(statistics.mean(numbers), rel=1e-3, abs=0.005)
        assert spread == pytest.approx(statistics.stdev(numbers), rel=1e-3, abs=0.005)
    assert rows(done.stdout, "model.heads")[0][:2] == ["2", "2"]


def leave(sweep: Path, *trials: dict[str, object]) -> None:
    """Results of trials."""
    for number, trial in enumerate(trials):
        (sweep / str(number)).mkdir(parents=True)
        outcome = {"trial": number, "error": "", "results": {}} | trial
        (sweep / str(number) / "trial.json").write_text(json.dumps(outcome), encoding="utf-8")


def test_twelve_trials_stand_in_order_and_results_that_some_lack_leave_cells_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = [0.0612, 0.00004, 31.5, *range(8)]
    kept = [{"overrides": {"heads": str(i), "dim": "8"}, "results": {"bleu": x}} for i, x in enumerate(scores)]
    leave(tmp_path, *kept, {"overrides": {"dim": "8"}, "results": {"chrf": 15281.0}})
    write_tables(tmp_path)
    trials = table(tmp_path / "sweep.csv")
    assert [one["trial"] for one in trials] == [*map(str, range(12))]
    assert trials[0].keys() == {"trial", "heads", "bleu", "chrf"}, "only what differs is shown, and no errors"
    assert [trials[place][name] for place in (0, 11) for name in ("heads", "bleu", "chrf")] == [
        *("0", "0.0612", "", "", "", "15281.0")
    ]
    printed = rows(capsys.readouterr().out, "trial")
    assert [row[2] for row in printed[:3]] == ["0.06", "0.00", "31.50"]
    assert printed[11] == ["11", "15,281"]
    assert not (tmp_path / "summary.csv").exists()


def test_a_setting_of_several_seeds_is_a_row_of_the_summary_without_failed_seeds(
    tmp_path: Path,
) -> None:
    scores = {"4": [30.0, 31.5, 33.0], "8": [31.0, 32.0], "16": [36.0]}
    trials = [
        {"overrides": {"heads": heads, "seed": str(seed)}, "results": {"bleu": bleu}}
        for heads, of_seeds in scores.items()
        for seed, bleu in enumerate(of_seeds)
    ]
    leave(tmp_path, *trials, {"overrides": {"heads": "8", "seed": "3"}, "error": "it failed"})
    write_tables(tmp_path)
    found = [(row["heads"], row["seeds"], row["bleu"]) for row in table(tmp_path / "summary.csv")]
    assert found[2] == ("16", "1", "36.00")  # one seed has no standard deviation
    assert found[:2] == [
        (heads, str(len(bleu)), f"{statistics.mean(bleu):.2f} ± {statistics.stdev(bleu):.2f}")
        for heads, bleu in [*scores.items()][:2]
    ]


def test_trials_of_several_processes_are_refused_and_an_earlier_sweep_not_counted(
    tmp_path: Path,
) -> None:
    leave(tmp_path / "sweep", *[{"overrides": {"seed": str(seed)}} for seed in range(3)])
    more = ["hydra.sweep.dir=sweep", "seed=1"]
    done = script("train", "-m", *TINY, *more, "trainer.devices=2", cwd=few_pairs(tmp_path))
    assert done.returncode == 2
    assert "trainer.devices=1" in done.stderr.splitlines()[-1]
    [trial] = table(tmp_path / "sweep" / "sweep.csv")
    assert "trainer.devices=1" in trial["error"]


def test_nothing_of_a_trial_is_left_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "before")
    threads = torch.get_num_threads()
    with pytest.raises(RuntimeError), isolated():  # noqa: PT012
        torch.set_num_threads(threads + 1)
        os.environ |= {"KEPT": "changed", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        raise RuntimeError
    assert (torch.get_num_threads(), os.environ["KEPT"]) == (threads, "before")
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


@pytest.mark.long
def test_a_trial_after_another_is_bit_for_bit_the_run_alone(tmp_path: Path) -> None:
    """The first trial sets threads and an environment variable, draws random numbers and has different settings."""
    few_pairs(tmp_path)
    long = [*TINY, "trainer.max_steps=8", "model.dropout=0.3", "training.bpe_dropout=0.1"]
    ok("train", "-m", *long, "hydra.sweep.dir=sweep", "trainer.deterministic=true,false", cwd=tmp_path)
    ok("train", *long, "hydra.run.dir=alone", "trainer.deterministic=false", cwd=tmp_path)
    folders = str(tmp_path / "sweep" / "1"), str(tmp_path / "alone")
    second, alone = (torch.load(f"{folder}/checkpoints/last.ckpt", weights_only=True) for folder in folders)
    assert second.pop("seconds") > 0 < alone.pop("seconds")
    assert_equal(second, alone, folders, "last")
    hypotheses = [Path(folder, "hypotheses.test.txt").read_bytes() for folder in folders]
    assert hypotheses[0] == hypotheses[1]
