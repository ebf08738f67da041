"""Pictures of several runs, whatever these are called."""

from pathlib import Path

from matplotlib.image import imread

from transformer.visualization.comparison import draw_comparison
from transformer.visualization.sweep import draw_sweep

NAMES = ["base", "lr_$2e-3_$1", "x" * 150]


def test_names_may_be_long_and_have_dollar_signs(tmp_path: Path) -> None:
    draw_comparison({"bleu": dict.fromkeys(NAMES, (30.0, 1.0))}, tmp_path / "comparison.png")
    draw_sweep(["data.train"], {(name,): [30.0, 31.0] for name in NAMES}, "test/bleu", tmp_path / "sweep.png")
    for picture in tmp_path.iterdir():
        height, width, _ = imread(picture).shape
        assert width > 150 * 0.05 * 110 > height, "there is space for the longest name (of 110 pixels to the inch)"
