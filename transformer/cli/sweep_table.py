"""The end of a sweep: all trials in one table and one picture, seeds of a setting put together."""

import csv
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from transformer.cli.sweeps import outcomes
from transformer.data.printable import console, say
from transformer.visualization.sweep import draw_sweep

Row = dict[str, Any]
# Student's t: 97.5 % of its values lie below, for 1, 2, … 10 degrees of freedom; more are taken for 10.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
RULE = (
    "change: against the mean of the first row, ± its 95 % interval (Welch's t); within the spread: the interval holds "
    "0, so that with other seeds the order may change"
)


def _swept(trials: list[Row]) -> list[str]:
    """The settings in which the trials differ."""
    keys = dict.fromkeys(key for trial in trials for key in trial["overrides"])
    return [key for key in keys if len({trial["overrides"].get(key) for trial in trials}) > 1]


def _rows(trials: list[Row], swept: list[str]) -> Iterator[Row]:
    for trial in trials:
        overrides = {key: trial["overrides"].get(key, "") for key in swept}
        error = {"error": trial["error"]} if trial["error"] else {}
        yield {"trial": trial["trial"], **overrides, **trial["results"], **error}


def format_result(value: float) -> str:
    """A result as the tables show it: with two decimals, however small, and from 1,000 on without."""
    return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def _show(rows: list[Row], output: Path) -> None:
    """Prints rows as one table on stdout and writes them as CSV."""
    columns = sorted({key: None for row in rows for key in row}, key=lambda column: column == "error")
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    table = Table(*columns, box=box.SIMPLE)
    for row in rows:
        cells = [row.get(column, "") for column in columns]
        table.add_row(*(format_result(cell) if isinstance(cell, float) else str(cell) for cell in cells))
    console().print(table)


def welch_half_width(one: list[float], other: list[float]) -> float:
    """Half the width of the 95 % interval of the difference of two means (Welch 1947), two values or more a side.

    Degrees of freedom are rounded down: the interval is rather too wide.
    """
    errors = [statistics.variance(values) / len(values) for values in (one, other)]
    if not any(errors):
        return 0.0
    freedom = sum(errors) ** 2 / sum(e**2 / (len(v) - 1) for e, v in zip(errors, (one, other), strict=True))
    whole = int(freedom + 1e-9)  # equal variances give 4 degrees, not 3.999…
    return STUDENT[min(len(STUDENT), whole) - 1] * math.sqrt(sum(errors))


def describe_change(before: list[float], after: list[float]) -> str:
    """How much higher the mean of some seeds is than that of others, and whether more than chance speaks for it."""
    change = statistics.mean(after) - statistics.mean(before)
    if min(len(before), len(after)) < 2:
        return f"{change:+,.2f} (one seed tells no spread)"
    interval = welch_half_width(before, after)
    return f"{change:+,.2f} ± {format_result(interval)}, {'within' if abs(change) <= interval else 'beyond'} the spread"


def _summary(rows: list[Row], settings: list[str], results: list[str]) -> Iterator[Row]:
    """One row a setting: the mean and spread of every result over its seeds, and the change of the first result."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if "error" not in row:
            groups.setdefault(tuple(row[key] for key in settings), []).append(row)
    for group in groups.values():
        summary = {key: group[0][key] for key in settings} | {"seeds": len(group)}
        for name in results:
            values = [row[name] for row in group if name in row]  # other metrics and directions have other results
            spread = f" ± {format_result(statistics.stdev(values))}" if len(values) > 1 else ""
            summary[name] = f"{format_result(statistics.mean(values))}{spread}" if values else ""
        if results and len(groups) > 1:
            first, *_ = groups.values()
            before, after = ([row[results[0]] for row in seeds if results[0] in row] for seeds in (first, group))
            is_change = group is not first and before and after
            summary[f"change in {results[0]}"] = describe_change(before, after) if is_change else ""
        yield summary


def show_sweep(folder: Path, earlier: dict[Path, int]) -> bool:
    """Prints the trials below `folder`, writes them to sweep.csv and sweep.png, and says whether all went well.

    A trial is a `trial.json` with its number, overrides, results and error. Where `seed` was swept, a second table
    (summary.csv) has the mean and the standard deviation over the seeds of each setting, and what it gains. `earlier`
    are the outcomes that the folder held before, which do not count.
    """
    new = [path for path, written in outcomes(folder).items() if earlier.get(path) != written]
    trials = [json.loads(path.read_text(encoding="utf-8")) for path in new]
    trials.sort(key=lambda trial: int(trial["trial"]))
    swept = _swept(trials)
    rows = list(_rows(trials, swept))
    _show(rows, folder / "sweep.csv")
    results = list(dict.fromkeys(name for trial in trials for name in trial["results"]))
    settings = [key for key in swept if key != "seed"]
    if "seed" in swept:
        summary = list(_summary(rows, settings, results))
        _show(summary, folder / "summary.csv")
        if results and len(summary) > 1:
            print(RULE)
    finished = [trial for trial in trials if not trial["error"]]
    values: dict[tuple[str, ...], list[float]] = {}
    for trial in finished:
        if results and results[0] in trial["results"]:
            place = tuple(trial["overrides"].get(key, "") for key in settings)
            values.setdefault(place, []).append(trial["results"][results[0]])
    if values and settings:
        draw_sweep(settings, values, results[0], folder / "sweep.png")
        say(f"picture: {folder / 'sweep.png'}")
    return bool(trials) and len(finished) == len(trials)
