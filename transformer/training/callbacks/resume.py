"""What a run must be told before it goes on from a checkpoint: which settings hold, and which have changed."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from transformer.config import flatten
from transformer.device import MachineSettings
from transformer.inference.checkpoint import load_training

# Another value of these makes another run. Corpora are compared by their bytes, not by where they lie.
FIXED = (
    *("seed", "init_from", "model", "tokenizer", "training.optimizer", "training.averaging.kind"),
    *("data.source_language", "data.target_language", "data.max_length", "data.both_directions"),
)
FIXED_CORPORA = ("digests.train", "digests.validation")
# Where things lie, which the digests of the corpora make irrelevant.
PLACES = (
    *("data.name", "data.directory", "data.train", "data.validation", "data.test", "data.extra_tests", "data.cache"),
    *("data.url", "data.sha256"),
)


@dataclass
class History:
    """How far a run had come at the checkpoint that it goes on from: rows of `metrics.csv`, and steps."""

    rows: int = 0
    steps: int = 0


def numerics() -> dict[str, Any]:
    """What of the machine decides the last bits of a sum: another one is allowed, but no longer exact."""
    return {
        "torch": torch.__version__.split("+")[0],
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def read_run(path: Path | None) -> dict[str, Any] | None:
    """What `Checkpoints` has put into a checkpoint, read whole and checked; None without one.

    Raises ValueError for a file that no run can go on from.
    """
    try:
        return load_training(path)["run"] if path else None
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} does not say where its run stood: no run can go on from it") from error


def restore_numerics(machine: MachineSettings, saved: dict[str, Any] | None) -> MachineSettings:
    """What the machine was found to do best when the run began, unless told otherwise now: timings differ."""
    if saved is None or machine.matmul_precision is not None:
        return machine
    return replace(machine, matmul_precision=saved["settings"]["numerics"]["matmul_precision"])


def check_resumption(saved: dict[str, Any] | None, settings: dict[str, Any], speaks: bool) -> History:
    """Says on stderr which settings have changed since the run that `read_run` has read; without one all is new.

    Raises ValueError where the run cannot go on with them.
    """
    if saved is None:
        return History()
    steps, most = saved["position"]["steps"], settings["trainer"].get("max_steps", -1)
    if type(most) is int and 0 <= most < steps:
        raise ValueError(f"trainer.max_steps={most}: the run has done {steps:,} steps already; give more, or leave it")
    for line in changed_settings(saved["settings"], settings):
        if speaks:
            print(f"changed: {line}", file=sys.stderr)
    return History(saved["rows"], steps)


def changed_settings(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Each setting that has changed, as a line.

    Raises ValueError, naming all of them, if some must not.
    """
    before, after = dict(flatten(saved)), dict(flatten(now))
    different = [key for key in before if key in after and before[key] != after[key]]
    said = {key: f"{key}={_shown(after[key])} (was {_shown(before[key])})" for key in different}
    fixed = [said[key] for key in different if _within(key, FIXED)]
    if moved := [key for key in different if _within(key, FIXED_CORPORA)]:
        fixed.append(f"the files of {' and '.join(key.removeprefix('digests.') for key in moved)}")
    if fixed:
        raise ValueError(f"a resumed run cannot change {', '.join(fixed)}: leave that out, or start a new run")
    return [said[key] for key in different if not _within(key, (*PLACES, "digests"))]


def _within(key: str, groups: tuple[str, ...]) -> bool:
    return any(key == group or key.startswith(f"{group}.") for group in groups)


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)
