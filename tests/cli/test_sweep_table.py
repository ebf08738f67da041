"""A gain over seeds is only called one where the spread of the seeds allows it."""

import csv
import json
import math
import random
import statistics
from pathlib import Path

import pytest

from transformer.cli.sweep_table import STUDENT, describe_change, show_sweep, welch_half_width


@pytest.mark.parametrize("freedom", range(1, 11))
def test_students_quantiles_leave_a_fortieth_above(freedom: int) -> None:
    factor = math.gamma((freedom + 1) / 2) / math.sqrt(freedom * math.pi) / math.gamma(freedom / 2)
    steps = 20_000
    width = STUDENT[freedom - 1] / steps
    # The density, by the middle of many small intervals, from the middle of the distribution to the quantile.
    places = ((i + 0.5) * width for i in range(steps))
    below = 0.5 + sum(factor * (1 + t * t / freedom) ** (-(freedom + 1) / 2) for t in places) * width
    assert below == pytest.approx(0.975, abs=2e-5)


def test_of_equal_settings_few_come_out_as_different() -> None:
    draw = random.Random(1)
    beyond = sum(
        "beyond" in describe_change([draw.gauss(0, 1) for _ in range(3)], [draw.gauss(0, 1) for _ in range(3)])
        for _ in range(2000)
    )
    assert 20 <= beyond <= 110  # 5 % would be 100; rounding the degrees of freedom down makes it fewer


def test_a_gain_is_within_the_spread_or_beyond_it() -> None:
    assert describe_change([10.0, 11.0, 12.0], [12.0, 13.0, 14.0]) == "+2.00 ± 2.27, within the spread"
    assert describe_change([10.0, 11.0, 12.0], [9.0, 7.0, 8.0]) == "-3.00 ± 2.27, beyond the spread"
    assert describe_change([10.0, 11.0, 12.0], [13.0]) == "+2.00 (one seed tells no spread)"
    assert describe_change([10.0, 10.0], [10.0, 10.0]) == "+0.00 ± 0.00, within the spread"


def test_the_seeds_of_the_better_known_side_count_for_less() -> None:
    # Welch's interval lies between that of the noisier side alone and that of both as noisy.
    noisy, calm = [10.0, 14.0, 12.0], [20.0, 20.1, 19.9]
    alone = STUDENT[1] * statistics.stdev(noisy) / math.sqrt(3)
    assert welch_half_width(noisy, calm) == pytest.approx(alone, rel=0.01)
    assert welch_half_width(noisy, calm) == welch_half_width(calm, noisy)


def test_the_table_of_seeds_says_whether_a_gain_lies_within_the_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {"4": [30.0, 31.0, 32.0], "8": [31.0, 32.0, 30.5], "16": [36.0, 37.0, 36.5]}
    for trial, (heads, seed) in enumerate((heads, seed) for heads in scores for seed in (1, 2, 3)):
        (tmp_path / str(trial)).mkdir()
        result = {
            "trial": trial,
            "overrides": {"model.heads": heads, "seed": str(seed)},
            "results": {"test/bleu": scores[heads][seed - 1]},
            "error": "",
        }
        (tmp_path / str(trial) / "trial.json").write_text(json.dumps(result), encoding="utf-8")
    assert show_sweep(tmp_path, {})
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line for line in printed.split("change in test/bleu")[1].splitlines() if line.strip()}
    assert "31.00 ± 1.00" in rows["4"]
    assert "spread" not in rows["4"]
    assert rows["8"].strip().endswith("within the spread")
    assert rows["16"].strip().endswith("beyond the spread")
    assert "the interval holds 0" in printed


def test_trials_of_other_metrics_leave_cells_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for trial, (metric, seed) in enumerate((metric, seed) for metric in ("bleu", "chrf") for seed in "12"):
        (tmp_path / str(trial)).mkdir()
        overrides, results = {"metrics": f"[{metric}]", "seed": seed}, {f"test/{metric}": 30.0 + trial}
        outcome = {"trial": trial, "overrides": overrides, "results": results, "error": ""}
        (tmp_path / str(trial) / "trial.json").write_text(json.dumps(outcome), encoding="utf-8")
    assert show_sweep(tmp_path, {})
    with (tmp_path / "summary.csv").open(encoding="utf-8", newline="") as file:
        [bleu, chrf] = csv.DictReader(file)
    assert [bleu["test/bleu"], bleu["test/chrf"]] == ["30.50 ± 0.71", ""]
    assert [chrf["test/bleu"], chrf["test/chrf"], chrf["change in test/bleu"]] == ["", "32.50 ± 0.71", ""]
    assert (tmp_path / "sweep.png").exists()


def test_scores_below_one_are_shown_like_all_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for trial, score in enumerate([0.0612, 0.00004, 31.5]):
        (tmp_path / str(trial)).mkdir()
        overrides, results = {"model.heads": str(trial + 1)}, {"test/bleu": score, "tokens/s": 15281.0}
        outcome = {"trial": trial, "overrides": overrides, "results": results, "error": ""}
        (tmp_path / str(trial) / "trial.json").write_text(json.dumps(outcome), encoding="utf-8")
    assert show_sweep(tmp_path, {})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[2:] for row in rows if len(row) == 4][1:] == [[score, "15,281"] for score in ("0.06", "0.00", "31.50")]


def test_trials_stand_in_their_order_with_the_errors_last_and_none_are_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not show_sweep(tmp_path, {})
    for trial in range(12):
        (tmp_path / str(trial)).mkdir()
        overrides = {"model.heads": str(trial)} if trial else {}
        failed = trial == 3
        results = {} if failed else {"test/bleu": 30.0 + trial}
        outcome = {"trial": trial, "overrides": overrides, "results": results, "error": "it failed" * failed}
        (tmp_path / str(trial) / "trial.json").write_text(json.dumps(outcome), encoding="utf-8")
    assert not show_sweep(tmp_path, {})
    with (tmp_path / "sweep.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["trial", "model.heads", "test/bleu", "error"]
    assert [row[:2] for row in rows] == [["0", ""], *([str(trial)] * 2 for trial in range(1, 12))]
    assert rows[3][2:] == ["", "it failed"]
