"""A sweep of `translator train -m`: the results of each trial, and the table and the picture of all trials."""

import csv
import io
import json
import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich import box
from rich.table import Table

from transformer.files import atomic_write, read_json, write_json
from transformer.printing import console, one_line, say

Row = dict[str, Any]
OUTCOME = "trial.json"  # in the folder of a trial: its number, overrides, results and error


@contextmanager
def isolated() -> Iterator[None]:
    """Isolates the trials of one process: a trial does not change the environment or the number of threads of the
    next."""
    import torch

    environment, threads = dict(os.environ), torch.get_num_threads()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        torch.set_num_threads(threads)


def _swept(trials: list[Row]) -> list[str]:
    """The settings in which the trials differ."""
    keys = dict.fromkeys(key for trial in trials for key in trial["overrides"])
    return [key for key in keys if len({trial["overrides"].get(key) for trial in trials}) > 1]


def format_result(value: float) -> str:
    """A result for the tables: with two decimals, or without decimals from 1,000 on."""
    return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def trial_rows(trials: list[Row]) -> list[Row]:
    """One row per trial: its number, the settings of the sweep, its results, and its error."""
    swept = _swept(trials)
    return [
        {"trial": trial["trial"]}
        | {key: trial["overrides"].get(key, "") for key in swept}
        | trial["results"]
        | ({"error": trial["error"]} if trial["error"] else {})
        for trial in trials
    ]


def seed_rows(trials: list[Row]) -> list[Row]:
    """One row for each combination of settings: the mean and the standard deviation of every result over seeds."""
    settings = [key for key in _swept(trials) if key != "seed"]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for trial in trials:
        if not trial["error"]:
            groups.setdefault(tuple(trial["overrides"].get(key, "") for key in settings), []).append(trial["results"])
    rows = []
    for values, results in groups.items():
        row: Row = dict(zip(settings, values, strict=True)) | {"seeds": len(results)}
        for name in dict.fromkeys(name for one in results for name in one):
            numbers = [one[name] for one in results if name in one]
            spread = f" ± {format_result(statistics.stdev(numbers))}" if len(numbers) > 1 else ""
            row[name] = f"{format_result(statistics.mean(numbers))}{spread}"
        rows.append(row)
    return rows


def _columns(rows: list[Row]) -> list[str]:
    return sorted({key: None for row in rows for key in row}, key=lambda column: column == "error")


def _write(rows: list[Row], path: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _columns(rows))
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(path, text.getvalue().encode())


def _print(rows: list[Row]) -> None:
    table = Table(*_columns(rows), box=box.SIMPLE)
    for row in rows:
        cells = [row.get(column, "") for column in _columns(rows)]
        table.add_row(*(format_result(cell) if isinstance(cell, float) else str(cell) for cell in cells))
    console().print(table)


def read_trials(folder: Path) -> list[Row]:
    """The results of the trials of a sweep so far, in order."""
    trials = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob(f"*/{OUTCOME}")]
    return sorted(trials, key=lambda trial: int(trial["trial"]))


def write_tables(folder: Path) -> None:
    """Writes sweep.csv and sweep.png, and summary.csv if seeds were swept; prints the tables."""
    from transformer.tools.pictures.sweeps import draw_sweep

    trials = read_trials(folder)
    tables = {"sweep.csv": trial_rows(trials)}
    if "seed" in _swept(trials):
        tables["summary.csv"] = seed_rows(trials)
    for file, rows in tables.items():
        if rows:
            _write(rows, folder / file)
            _print(rows)
    settings = [key for key in _swept(trials) if key != "seed"]
    result = next((name for trial in trials for name in trial["results"]), None)
    if not settings or result is None:
        return
    values: dict[tuple[str, ...], list[float]] = {}
    for trial in (trial for trial in trials if result in trial["results"]):
        place = tuple(trial["overrides"].get(key, "") for key in settings)
        values.setdefault(place, []).append(trial["results"][result])
    draw_sweep(settings, values, result, folder / "sweep.png")


class SweepTable(Callback):
    """Called by Hydra around the trials of a sweep (configs/train.yaml). The tables are written again after each trial,
    because Hydra calls nothing at the end of a sweep if a trial has failed."""

    def on_multirun_start(self, config: DictConfig, **more: Any) -> None:
        for left in Path(config.hydra.sweep.dir).glob(f"*/{OUTCOME}"):  # from an earlier sweep in the same folder
            left.unlink()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **more: Any) -> None:
        if config.hydra.mode is None or config.hydra.mode.name != "MULTIRUN":
            return
        failed, folder = job_return.status == JobStatus.FAILED, Path(config.hydra.runtime.output_dir)
        outcome = {
            "trial": config.hydra.job.num,
            "overrides": dict(override.lstrip("+").split("=", 1) for override in config.hydra.overrides.task),
            "results": {} if failed else read_json(folder / OUTCOME)["results"],
            "error": one_line(job_return._return_value) if failed else "",
        }
        if failed:
            say(f"trial {config.hydra.job.num}: {outcome['error']}")
        write_json(folder / OUTCOME, outcome)
        write_tables(folder.parent)
