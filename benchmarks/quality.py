"""Time to quality: minutes of training until validation BLEU first reaches each target.

Every system is a separate process that trains, validates regularly and prints a line for each validation:
`scripts/train.py` as users run it, and the trainers of quality_peers.py. The clock starts with the process, so imports
and validations count; the tokenizer and the ids, which all systems share, are made before. A run ends when it has
reached the highest target, or at the time limit.
"""

import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.common import PROJECT, Row, prepared
from benchmarks.quality_peers import LEARNING_RATES
from transformer.cli.compose import compose

SYSTEMS = ("ours", *LEARNING_RATES)
# The settings of the project: with Multi30k the same as for users; a short form for the bundled corpus.
PRESET = ("experiment=multi30k_cpu",)
SHORT = (
    *("trainer=cpu", "model.dim=64", "model.layers=1", "model.feed_forward.dim=256", "tokenizer.vocabulary_size=2000"),
    *("data.batch_tokens=512", "training.learning_rate=1e-2", "training.warmup_steps=20", "training.samples=0"),
    *("training.schedule=inverse_square_root", "trainer.max_steps=200", "training.validate_every=200"),
)
VALIDATED = re.compile(r"^step .* BLEU ([\d.]+) +validated in ([\d.]+) s +([\d,]+) target tokens/s")
# If a process fails, this number of its last lines is shown.
SHOWN_LINES = 20


def compared(systems: list[str] | None, factors: list[float]) -> list[tuple[str, float]]:
    """The cases to measure: (system, factor of its usual learning rate)."""
    chosen = [name for name in SYSTEMS if systems is None or name in systems]
    if "transformers" in chosen and not all(map(importlib.util.find_spec, ("transformers", "accelerate"))):
        print("transformers is left out: pip install transformers accelerate", file=sys.stderr)
        chosen.remove("transformers")
    return [(name, factor) for name in chosen for factor in factors]


def usual_learning_rate(system: str, settings: list[str]) -> float:
    """The learning rate of a system; the project's is in its preset."""
    if system == "ours":
        return float(compose(*settings)["training"]["learning_rate"])
    return LEARNING_RATES[system]


def command(system: str, learning_rate: float, directory: Path | None, settings: list[str]) -> list[str]:
    """The command of a system. `settings` are the project's; the peers have their own."""
    if system == "ours":
        own = [*([f"data.directory={directory}"] if directory else []), f"training.learning_rate={learning_rate}"]
        return [sys.executable, str(PROJECT / "scripts" / "train.py"), *settings, *own, "test=false"]
    folder = str(directory) if directory else "-"
    return [sys.executable, "-m", "benchmarks.quality_peers", system, str(learning_rate), folder, *settings]


def watch(process_command: list[str], targets: Sequence[float], minutes: float) -> Row:
    """Runs a system until it has reached all targets, or its time is over. Raises RuntimeError if it fails."""
    before, started = os.times(), time.perf_counter()
    curve: list[tuple[float, float]] = []  # minutes and BLEU
    validating, speed, output = 0.0, 0.0, []
    with subprocess.Popen(
        process_command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        limit = threading.Timer(60 * minutes, process.terminate)
        limit.start()
        for line in process.stderr:
            output.append(line)
            if match := VALIDATED.match(line):
                curve.append(((time.perf_counter() - started) / 60, float(match[1])))
                print(f"BLEU {curve[-1][1]:.1f} after {curve[-1][0]:.1f} minutes", file=sys.stderr, flush=True)
                validating, speed = validating + float(match[2]) / 60, float(match[3].replace(",", ""))
                if curve[-1][1] >= max(targets):
                    process.terminate()
        is_over = not limit.is_alive()
        limit.cancel()
    after, total = os.times(), (time.perf_counter() - started) / 60
    best = max((bleu for _, bleu in curve), default=0.0)
    if process.returncode and not is_over and best < max(targets):
        raise RuntimeError(f"{' '.join(process_command)}\n{''.join(output[-SHOWN_LINES:])}")
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "minutes": {f"{target:g}": next((m for m, bleu in curve if bleu >= target), None) for target in targets},
        "validating": validating / curve[-1][0] if curve else 0.0,
        "best_bleu": best,
        "tokens_per_second": speed,
        "cores": processor / 60 / total,
        "curve": curve,
    }


def table(rows: list[Row], targets: Sequence[float]) -> Table:
    """The median of the seeds; — if a seed has not reached a target."""
    shown = Table("system", "learning rate", box=SIMPLE)
    for column in (*(f"minutes to {target:g}" for target in targets), "validating", "best BLEU", "tokens/s", "cores"):
        shown.add_column(column, justify="right")
    grouped = defaultdict(list)
    for row in rows:
        grouped[row["system"], row["learning_rate"]].append(row)
    for (system, learning_rate), same in grouped.items():
        reached = [[row["minutes"][f"{target:g}"] for row in same] for target in targets]
        shown.add_row(
            system,
            f"{learning_rate:g}",
            *("—" if None in values else f"{statistics.median(values):.1f}" for values in reached),
            f"{statistics.median(row['validating'] for row in same):.0%}",
            f"{statistics.median(row['best_bleu'] for row in same):.1f}",
            f"{statistics.median(row['tokens_per_second'] for row in same):,.0f}",
            f"{statistics.median(row['cores'] for row in same):.1f}",
        )
    return shown


def main(
    directory: Path | None,
    cases: list[tuple[str, float]],
    targets: Sequence[float],
    minutes: float,
    runs: int,
    threads: int,
    device: str,
    validate_every: int | None,
    save: Callable[[list[Row]], None],
) -> None:
    """Prints a table. `directory` None: the short form; `validate_every` None: as in the preset. `save` gets all rows
    so far after each run, because a run may take half an hour."""
    directory = directory and directory.resolve()
    settings = [*(PRESET if directory else SHORT), f"machine.threads={threads}"]
    settings += ["trainer.accelerator=gpu"] if device == "cuda" else []
    settings += [f"training.validate_every={validate_every}"] if validate_every else []
    data = prepared(directory)
    for split in ("train", "validation"):
        data.split(split)
    rows: list[Row] = []
    for seed in range(1, runs + 1):  # in turns, so that other work of the machine slows all systems
        for system, factor in cases:
            learning_rate = factor * usual_learning_rate(system, settings)
            name = f"{system}, learning rate {learning_rate:g}, seed {seed}"
            print(f"{name}:", file=sys.stderr, flush=True)  # a run may take half an hour
            with tempfile.TemporaryDirectory() as folder:
                run = command(system, learning_rate, directory, [*settings, f"seed={seed}"])
                run += [f"hydra.run.dir={folder}/run"] if system == "ours" else []
                row = watch(run, targets, minutes)
            rows.append({"system": system, "learning_rate": learning_rate, "seed": seed} | row)
            print(f"{row['cores']:.1f} cores", file=sys.stderr)
            save(rows)
    Console(width=None if sys.stdout.isatty() else 200).print(table(rows, targets))
