"""A picture of a sweep: a grid for two settings, else a row of points for every combination."""

import math
import statistics
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer.tools.pictures.picture import save, width_of

# The results (one per seed) for each combination of values of the settings in the sweep.
Values = dict[tuple[str, ...], list[float]]


def _grid(axes: Axes, settings: list[str], values: Values, rows: list[str], columns: list[str]) -> None:
    means = [[statistics.mean(values.get((row, column), [float("nan")])) for column in columns] for row in rows]
    axes.imshow(means, cmap="Blues", aspect="auto")
    tried = [statistics.mean(results) for results in values.values()]
    dark = min(tried) + 0.6 * (max(tried) - min(tried))  # above this value, white text is readable on the blue
    for y, line in enumerate(means):
        for x, mean in enumerate(line):
            if not math.isnan(mean):
                axes.text(x, y, f"{mean:.1f}", ha="center", va="center", color="white" if mean > dark else "black")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylabel(settings[0])
    axes.set_xlabel(settings[1])


def _names(values: Values) -> list[str]:
    return [", ".join(key) for key in values]


def _points(axes: Axes, settings: list[str], values: Values, result: str) -> None:
    for row, results in enumerate(values.values()):
        axes.plot(results, [row] * len(results), "o", color="tab:blue", alpha=0.5)
        if len(results) > 1:
            # Drawn below the points, because it would hide them.
            mean, spread = statistics.mean(results), statistics.stdev(results)
            axes.errorbar(mean, row + 0.25, xerr=spread, marker="|", color="black", capsize=3)
    axes.set_yticks(range(len(values)), _names(values))
    axes.invert_yaxis()
    axes.set_ylabel(", ".join(settings))
    axes.set_xlabel(
        f"{result} (points: seeds; bar: mean ± standard deviation)" if max(map(len, values.values())) > 1 else result
    )
    axes.grid(alpha=0.3)


def sweep_figure(settings: list[str], values: Values, result: str) -> Figure:
    if len(settings) == 2:
        rows, columns = (list(dict.fromkeys(key[side] for key in values)) for side in (0, 1))
        figure = Figure(figsize=(2.6 + 1.1 * len(columns), 1.6 + 0.55 * len(rows)), layout="constrained")
        _grid(figure.subplots(), settings, values, rows, columns)
        figure.suptitle(result)
    else:
        figure = Figure(figsize=(6 + width_of(_names(values)), 1.2 + 0.4 * len(values)), layout="constrained")
        _points(figure.subplots(), settings, values, result)
    return figure


def draw_sweep(settings: list[str], values: Values, result: str, output: Path) -> None:
    """Draws `result` for every combination of the `settings`; several seeds are shown as mean and spread."""
    save(sweep_figure(settings, values, result), output)
