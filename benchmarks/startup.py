"""The start of a command, before its work: processor time of a new process, as a multiple of `import torch`.

All commands are measured in turns, in one run, so that other work of the machine slows all of them.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.common import Row

PROJECT = Path(__file__).resolve().parents[1]
# A very small model, whose time is negligible compared with the imports.
SMALL = (
    *("model.dim=16", "model.layers=1", "tokenizer.vocabulary_size=300", "trainer=cpu", "trainer.max_steps=1"),
    f"data.train={PROJECT}/data/toy/validation",
    *("trainer.limit_val_batches=1", "test=false", "loggers=[]"),
)
# A model of one step does not end its translations, so they are limited to a realistic length.
SHORT = ("--method", "greedy", "--length-ratio", "1", "--length-extra", "2")


def script(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PROJECT / "scripts" / f"{name}.py"), *arguments]


def processor_seconds(command: list[str], status: int) -> float:
    """User and system time of a process and its child processes; it must end with this status."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != status:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr}")
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main(runs: int) -> list[Row]:
    """Prints a table of the medians and returns its rows."""
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        subprocess.run(
            script("train", *SMALL, f"data.cache={folder}", f"hydra.run.dir={run}"), check=True, capture_output=True
        )
        load = f"from transformer import Translator; Translator.load('{run}')"
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "import transformer": [sys.executable, "-c", "import transformer"],
            "a wrong key": script("train", "model.hed=3"),
            "a wrong value": script("train", "model.heads=x"),
            "--help": script("train", "--help"),
            "--version": script("train", "--version"),
            "Translator.load": [sys.executable, "-c", load],
            "translate one sentence": script("translate", "Guten Morgen!", "--checkpoint", run, *SHORT),
            "import lightning": [sys.executable, "-c", "import lightning"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                seconds[name].append(processor_seconds(command, status=2 * name.startswith("a wrong")))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    rows = [
        {"command": name, "seconds": value, "times import torch": value / medians["import torch"]}
        for name, value in medians.items()
    ]
    table = Table("command", "processor s", "× import torch", box=SIMPLE)
    for row in rows:
        table.add_row(row["command"], f"{row['seconds']:.2f}", f"{row['times import torch']:.2f}")
    Console().print(table)
    return rows
