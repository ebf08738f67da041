"""The picture of a run's metrics."""

from pathlib import Path

import pytest

from transformer.tools.pictures.curves import AROUND, curves_figure, draw_curves, read_metrics, running_mean


def test_a_running_mean_keeps_the_number_of_points_and_a_straight_line() -> None:
    line = [2.0 * place for place in range(30)]
    found = running_mean(line)
    assert len(found) == 30
    assert found[AROUND:-AROUND] == pytest.approx(line[AROUND:-AROUND])
    assert found[0] == pytest.approx(sum(line[: AROUND + 1]) / (AROUND + 1))
    assert running_mean([]) == []


def test_columns_are_read_without_their_gaps_and_drawn(tmp_path: Path) -> None:
    rows = ["epoch,lr-AdamW,step,train/loss,validation/bleu", "0,,9,4.5,", "0,0.001,9,,", "1,,19,3.5,12.5"]
    (tmp_path / "metrics.csv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    columns = read_metrics(tmp_path / "metrics.csv")
    assert columns == {
        "train/loss": ([9, 19], [4.5, 3.5]),
        "lr-AdamW": ([9], [0.001]),
        "validation/bleu": ([19], [12.5]),
    }
    draw_curves(tmp_path / "metrics.csv", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_loss_of_each_batch_stands_behind_its_running_mean_and_one_rate_for_all() -> None:
    steps, losses = list(range(20)), [5.0 - (step % 3) for step in range(20)]
    columns = {"train/loss": (steps, losses), "lr-AdamW": (steps, losses), "lr-AdamW/pg2": (steps, losses)}
    loss, _, rate = curves_figure(columns).axes
    assert [[*line.get_ydata()] for line in loss.lines[:2]] == [losses, running_mean(losses)]
    assert len(rate.lines) == 1
