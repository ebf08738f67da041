"""The end of a sweep: all trials in one table and one picture, seeds of a setting put together."""

import csv
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from transformer.visualization.sweep import draw_sweep

Row = dict[str, Any]


def show_sweep(folder: Path) -> bool:
    """Prints the trials below `folder`, writes them to sweep.csv and sweep.png, and says whether all went well.

    A trial is a `result.json` with its number, overrides, results and error. Where `seed` was swept, a second table
    (summary.csv) has the mean and the standard deviation over the seeds of each setting.
    """
    trials = [json.loads(path.read_text(encoding="utf-8")) for path in folder.rglob("result.json")]
    trials.sort(key=lambda trial: int(trial["trial"]))
    swept = _swept(trials)
    rows = list(_rows(trials, swept))
    _show(rows, folder / "sweep.csv")
    results = list(dict.fromkeys(name for trial in trials for name in trial["results"]))
    settings = [key for key in swept if key != "seed"]
    if "seed" in swept:
        _show(list(_summary(rows, settings, results)), folder / "summary.csv")
    finished = [trial for trial in trials if not trial["error"]]
    if finished and settings and results:
        values: dict[tuple[str, ...], list[float]] = {}
        for trial in finished:
            values.setdefault(tuple(trial["overrides"].get(key, "") for key in settings), []).append(
                trial["results"][results[0]]
            )
        draw_sweep(settings, values, results[0], folder / "sweep.png")
        print(f"picture: {folder / 'sweep.png'}", file=sys.stderr)
    return bool(trials) and len(finished) == len(trials)


def _swept(trials: list[Row]) -> list[str]:
    """The settings in which the trials differ."""
    keys = dict.fromkeys(key for trial in trials for key in trial["overrides"])
    return [key for key in keys if len({trial["overrides"].get(key) for trial in trials}) > 1]


def _rows(trials: list[Row], swept: list[str]) -> Iterator[Row]:
    for trial in trials:
        overrides = {key: trial["overrides"].get(key, "") for key in swept}
        error = {"error": trial["error"]} if trial["error"] else {}
        yield {"trial": trial["trial"], **overrides, **trial["results"], **error}


def _summary(rows: list[Row], settings: list[str], results: list[str]) -> Iterator[Row]:
    """One row a setting: the mean and spread of every result over its seeds."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if "error" not in row:
            groups.setdefault(tuple(row[key] for key in settings), []).append(row)
    for group in groups.values():
        summary = {key: group[0][key] for key in settings} | {"seeds": len(group)}
        for name in results:
            values = [row[name] for row in group]
            spread = f" ± {statistics.stdev(values):.3g}" if len(values) > 1 else ""
            summary[name] = f"{statistics.mean(values):.4g}{spread}"
        yield summary


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
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells))
    width = None if sys.stdout.isatty() else 10_000  # nothing is cut in a pipe
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)
