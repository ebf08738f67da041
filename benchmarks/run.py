"""Measures the project and the installed peers in turns, in one run; gives a table, a picture and JSON.

python benchmarks/run.py training|decoding|quality|growth|startup|page|serving [--data FOLDER_OF_MULTI30K]
    [--systems ours,…] [--json FILE]
"""

import argparse
import datetime
import functools
import importlib.metadata
import json
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from matplotlib.figure import Figure
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks import decoding, growth, page, quality, serving, startup, training
from benchmarks.common import PRECISIONS, SIZES, Row, Setting, spread
from transformer.device import available_threads, find_hardware


def medians(measured: list[Row], speed: str) -> Row:
    """For one case: the median speed, and the largest value of everything else."""
    values = [row[speed] for row in measured]
    others = {key: max(row[key] for row in measured) for key in measured[0] if key != speed}
    return {speed: statistics.median(values), "spread": spread(values), "runs": values} | others


def interleaved(
    cases: list[Any],
    runs: int,
    measure: Callable[[Any], Row],
    speed: str,
    name: Callable[[Any], Row],
    save: Callable[[list[Row]], None],
) -> list[Row]:
    """Measures every case `runs` times, in turns, so that other work of the machine slows all cases; returns medians.

    `save` gets all rows so far after each measurement. A case that fails is reported in one line and left out.
    """
    found: dict[Any, list[Row]] = {case: [] for case in cases}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    rows: list[Row] = []
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("measuring", total=runs * len(cases))
        for _ in range(runs):
            for case in list(found):
                shown = " ".join(map(str, case))
                bar.update(task, description=shown)
                try:
                    found[case].append(measure(case))
                except RuntimeError as error:
                    print(f"failed: {shown}: {error}", file=sys.stderr)
                    del found[case]
                rows = [name(case) | medians(measured, speed) for case, measured in found.items() if measured]
                save(rows)
                bar.advance(task)
    return rows


def cell(column: str, value: Any) -> str:
    if isinstance(value, float):
        return f"± {value:.0%}" if column == "spread" else f"{value:,.0f}"
    return "" if value is None else str(value)


def table(rows: list[Row], speed: str) -> None:
    """Prints the rows; the last column compares each with the project in the same mode."""
    shown = Table(box=SIMPLE)
    columns = [key for key in rows[0] | rows[-1] if key not in ("runs",)]
    for column in [*columns, "ours is"]:
        shown.add_column(column, justify="left" if column in ("system", "precision", "matmul") else "right")
    for row in rows:
        same = [
            r
            for r in rows
            if r["system"] == "ours" and r["precision"] == row["precision"] and r.get("beam") == row.get("beam")
        ]
        ratio = f"{same[0][speed] / row[speed]:.2f} ×" if same else ""
        shown.add_row(*(cell(column, row.get(column)) for column in columns), ratio)
    Console(width=None if sys.stdout.isatty() else 200).print(shown)


def picture(rows: list[Row], speed: str, output: Path) -> None:
    figure = Figure(figsize=(8, 1.2 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = [
        " ".join(
            str(row[key]) for key in ("system", "precision", "matmul", "beam") if row.get(key) not in (None, "default")
        )
        for row in rows
    ]
    colors = {"ours": "tab:blue", "limit": "0.8"}
    axes.barh(
        range(len(rows)),
        [row[speed] for row in rows],
        xerr=[row["spread"] * row[speed] for row in rows],
        color=[colors.get(row["system"], "tab:orange") for row in rows],
    )
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_xlabel(speed.replace("_", " "))
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.is_file()
        else []
    )
    instructions = find_hardware("cpu").instructions.values()
    return ", ".join([names[0] if names else platform.processor(), *sorted(set(instructions))])


def versions() -> dict[str, str]:
    found = {"date": datetime.date.today().isoformat(), "python": platform.python_version()}
    found |= {"cpu": processor(), "threads": str(torch.get_num_threads())}
    if torch.cuda.is_available():
        ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(ask, capture_output=True, text=True).stdout if shutil.which("nvidia-smi") else "unknown"
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda), "driver": driver.split()[0]}
    for name in ("torch", "ctranslate2", "transformers"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "decoding", "quality", "growth", "startup", "page", "serving"])
    parser.add_argument(
        "--data", type=Path, help="folder with Multi30k's train, val and test_2016_flickr (the bundled corpus)"
    )
    parser.add_argument("--run", type=Path, help="for page: the run or checkpoint to export and measure")
    parser.add_argument("--systems", help="separated by commas (all that are installed)")
    parser.add_argument(
        "--precisions", nargs="+", choices=PRECISIONS, help="for training and decoding (all that are fast)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        help="training steps, hundreds of sentences, or tens of requests per measurement (40, 10, 40)",
    )
    parser.add_argument("--runs", type=int, help="measurements of each case (3); for quality: seeds (1)")
    parser.add_argument("--size", choices=sorted(SIZES), default="small", help="size of the model (small)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where to measure (cpu)")
    parser.add_argument("--threads", type=int, default=available_threads())
    parser.add_argument("--targets", type=float, nargs="+", help="for quality: validation BLEU (30 35 38; short: 1 2)")
    parser.add_argument("--minutes", type=float, default=60, help="for quality: the time limit of a run (60)")
    parser.add_argument(
        "--learning-rate-factors",
        type=float,
        nargs="+",
        default=[1.0],
        help="for quality: trains each system with its usual learning rate times each of these (1)",
    )
    parser.add_argument("--validate-every", type=int, help="for quality: steps (that of the preset, 650)")
    parser.add_argument("--short", action="store_true", help="for quality: the bundled corpus, a tiny model, seconds")
    parser.add_argument("--json", type=Path, help="a file for the rows")
    parser.add_argument("--picture", type=Path, help="a file for a picture of the rows")
    arguments = parser.parse_args()
    systems = arguments.systems.split(",") if arguments.systems else None
    if arguments.data and not (arguments.data / "train.de.gz").exists() and not (arguments.data / "train.de").exists():
        parser.error(f"--data {arguments.data}: no train.de or train.de.gz in it")
    steps = arguments.steps or (10 if arguments.what == "decoding" else 40)
    runs = arguments.runs or (1 if arguments.what == "quality" else 3)
    torch.set_num_threads(arguments.threads)

    def save(rows: list[Row]) -> None:
        if arguments.json:
            about = {"what": arguments.what, "size": arguments.size, "versions": versions()}
            arguments.json.write_text(json.dumps(about | {"rows": rows}, indent=2))

    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this machine has no GPU that torch can use")
    if arguments.what == "quality":
        if arguments.short == bool(arguments.data):
            parser.error("quality needs --data FOLDER_OF_MULTI30K or --short")
        cases = quality.compared(systems, arguments.learning_rate_factors)
        if not cases:
            parser.error(f"--systems {arguments.systems}: choose installed ones of {', '.join(quality.SYSTEMS)}")
        quality.main(
            arguments.data,
            cases,
            arguments.targets or ([1, 2] if arguments.short else [30, 35, 38]),
            arguments.minutes,
            runs,
            arguments.threads,
            arguments.device,
            arguments.validate_every,
            save,
        )
        return
    if arguments.what == "growth":
        growth.main(arguments.data, arguments.threads, save, arguments.picture)
        return
    if arguments.what == "page" and not arguments.run:
        parser.error("page needs --run: a run's folder or a checkpoint")
    if arguments.what in ("startup", "page"):
        rows = startup.main(runs) if arguments.what == "startup" else page.main(arguments.run, arguments.data, runs)
        save(rows)
        return
    setting = Setting(arguments.data, SIZES[arguments.size], arguments.device, arguments.threads)
    if arguments.what == "serving":
        rows = serving.main(setting, 10 * steps, runs)
        save(rows)
        return
    if arguments.what == "training":
        speed, names = "target_tokens_per_second", ("system", "precision", "matmul")
        cases = training.compared(systems, arguments.device, arguments.precisions)
        measure = functools.partial(training.measure, setting=setting, steps=steps)
    else:
        speed, names = "sentences_per_second", ("system", "precision", "beam")
        cases = decoding.compared(systems, arguments.device, arguments.precisions)
        measure = functools.partial(decoding.measure, setting=setting, sentences=100 * steps)
    if not cases:
        parser.error("none of --systems and --precisions can be measured here")
    rows = interleaved(cases, runs, measure, speed, lambda case: dict(zip(names, case, strict=True)), save)
    if rows:
        table(rows, speed)
    print(f"{versions()}", file=sys.stderr)
    if arguments.what == "decoding" and (systems is None or "ours" in systems):
        latency = decoding.latency(setting)
        print({key: round(value, 1) for key, value in latency.items()})
        save([*rows, {"system": "ours", "precision": "float32", "beam": 5} | latency])
    if arguments.picture and rows:
        picture(rows, speed, arguments.picture)
    if len(rows) < len(cases):
        sys.exit(1)


if __name__ == "__main__":
    main()
