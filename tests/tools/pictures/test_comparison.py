"""Pictures of several runs, with any names."""

from pathlib import Path

from matplotlib.image import imread

from transformer.tools.pictures.comparison import comparison_figure, draw_comparison
from transformer.tools.pictures.sweeps import draw_sweep, sweep_figure

NAMES = ["base", "lr_$2e-3_$1", "x" * 150]


def test_names_may_be_long_and_have_dollar_signs(tmp_path: Path) -> None:
    draw_comparison({"bleu": dict.fromkeys(NAMES, (30.0, 1.0))}, tmp_path / "comparison.png")
    draw_sweep(["data.train"], {(name,): [30.0, 31.0] for name in NAMES}, "test/bleu", tmp_path / "sweep.png")
    for picture in tmp_path.iterdir():
        height, width, _ = imread(picture).shape
        assert width > 150 * 0.05 * 110 > height, "there is space for the longest name (of 110 pixels to the inch)"


def test_each_score_stands_between_the_ends_of_its_interval_below_the_first_run() -> None:
    intervals = {"bleu": {"a": (30.0, 1.0), "b": (32.0, 0.5)}, "ter": {"a": (50.0, 2.0), "b": (49.0, 1.0)}}
    panels = comparison_figure(intervals).axes
    assert [axes.get_xlabel() for axes in panels] == ["BLEU, higher is better", "TER, lower is better"]
    for axes, runs in zip(panels, intervals.values(), strict=True):
        assert {*axes.lines[0].get_xdata()} == {runs["a"][0]}
        [bars] = axes.containers
        ends = [segment[:, 0].tolist() for segment in bars[2][0].get_segments()]
        assert ends == [[score - half, score + half] for score, half in runs.values()]
        assert axes.yaxis_inverted()
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["a", "b"]


def test_a_grid_has_the_mean_of_each_combination_and_nothing_where_none_was_tried() -> None:
    values = {("1", "x"): [30.0, 31.0], ("1", "y"): [20.0], ("2", "y"): [10.0]}
    axes = sweep_figure(["layers", "norm"], values, "test/bleu").axes[0]
    ticks = (axes.get_yticklabels(), axes.get_xticklabels())
    rows, columns = ([label.get_text() for label in labels] for labels in ticks)
    cells = {(rows[int(y)], columns[int(x)]): text.get_text() for text in axes.texts for x, y in [text.get_position()]}
    assert cells == {("1", "x"): "30.5", ("1", "y"): "20.0", ("2", "y"): "10.0"}
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("layers", "norm")


def test_other_sweeps_have_a_row_of_points_for_each_setting_from_the_top() -> None:
    values = {("1",): [30.0, 32.0], ("2",): [20.0]}
    axes = sweep_figure(["layers"], values, "test/bleu").axes[0]
    points = {int(line.get_ydata()[0]): [*line.get_xdata()] for line in axes.lines if line.get_marker() == "o"}
    assert points == {0: [30.0, 32.0], 1: [20.0]}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
    assert axes.yaxis_inverted()
    [mean] = axes.containers  # one seed has no spread
    assert [*mean[0].get_xdata()] == [31.0]
