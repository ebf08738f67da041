"""A picture that compares runs: each score with its confidence interval."""

from pathlib import Path

from matplotlib.figure import Figure

from transformer.evaluation.metrics import METRICS
from transformer.tools.pictures.picture import blank, save, width_of

# A score and half the width of its 95 % interval.
Interval = tuple[float, float]


def comparison_figure(intervals: dict[str, dict[str, Interval]]) -> Figure:
    names = list(next(iter(intervals.values())))
    figure = blank(1.4 + width_of(names) + 3.2 * len(intervals), 1.2 + 0.4 * len(names))
    panels = figure.subplots(1, len(intervals), sharey=True, squeeze=False)[0]
    for axes, (metric, runs) in zip(panels, intervals.items(), strict=True):
        scores, halves = zip(*runs.values(), strict=True)
        axes.axvline(scores[0], color="0.6", linestyle="--", linewidth=1)
        axes.errorbar(scores, range(len(names)), xerr=halves, fmt="o", color="tab:blue", capsize=4)
        better = "higher" if METRICS[metric].higher_is_better else "lower"
        axes.set_xlabel(f"{METRICS[metric].label}, {better} is better")
        axes.grid(axis="x", alpha=0.3)
        axes.margins(y=0.5 / len(names))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylabel("run")
    panels[0].invert_yaxis()
    figure.suptitle("bars: 95 % intervals by bootstrap resampling; overlapping ones may still differ (paired tests)")
    return figure


def draw_comparison(intervals: dict[str, dict[str, Interval]], output: Path) -> None:
    """Draws {metric: {run: Interval}}, one panel per metric; a dashed line marks the first run's score."""
    save(comparison_figure(intervals), output)
