"""What is checked before a run resumes from a checkpoint: which settings must stay, and which have changed."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch

from transformer.config import UsageError, flatten, from_dict, shown
from transformer.data.corpus import FILE_SETTINGS
from transformer.data.printable import one_line, say, terminal_safe
from transformer.device import MachineSettings, MatmulPrecision, device_kind
from transformer.inference.checkpoint import load_training
from transformer.training.callbacks.train_progress import TrainProgress
from transformer.training.optim import learning_rate_factor

# A different value of these makes a different run. Corpora are compared by their bytes, not by their paths.
FIXED = (
    *("seed", "init_from", "model", "tokenizer", "training.optimizer", "training.averaging.kind"),
    *("data.source_language", "data.target_language", "data.max_length", "data.directions"),
    *("data.direction_temperature", "data.synthetic_ratio", "data.synthetic_tag"),
)
FIXED_CORPORA = ("digests.train", "digests.validation", "digests.synthetic")
# Names and paths, which the digests of the corpora make irrelevant.
PATHS = tuple(
    f"data.{name}"
    for name in (*FILE_SETTINGS, "name", "columns", "split", "extra_tests", "synthetic", "cache", "url", "sha256")
)


@dataclass
class ResumePoint:
    """The rows of `metrics.csv` and the steps at the checkpoint that a run goes on from."""

    rows: int = 0
    steps: int = 0


def numerics(accelerator: str) -> dict[str, Any]:
    """What decides the last bits of a sum on this machine: a run may go on with other numerics, but not exactly."""
    return {
        "device": device_kind(accelerator),
        "torch": torch.__version__.split("+")[0],
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def read_run(path: Path | None) -> dict[str, Any] | None:
    """What StepCheckpoints has put into a checkpoint, read whole and checked; None without one.

    Raises ValueError for a file that no run can go on from.
    """
    if path is None:
        return None
    checkpoint = load_training(path)
    try:
        run: dict[str, Any] = checkpoint["run"]
        from_dict(TrainProgress, run["progress"], "progress")
        if type(run["rows"]) is not int or not run["rows"] >= 0 or not isinstance(run["sharding"], list):
            raise TypeError(f"rows {run['rows']!r}, sharding {run['sharding']!r}")
        if run["settings"]["numerics"]["matmul_precision"] not in get_args(MatmulPrecision):
            raise TypeError(f"numerics {run['settings']['numerics']!r}")
        return run
    except (KeyError, TypeError, ValueError) as error:
        reason = terminal_safe(one_line(error, 200))
        raise ValueError(f"{path} does not say how far its run was: no run can continue from it ({reason})") from error


@contextmanager
def explain_restoring(resume: Path | None, has_gone_on: Callable[[], bool]) -> Iterator[None]:
    """Reports in one line that Lightning cannot restore the states in a checkpoint. After the first step
    (`has_gone_on`) an error has another cause and is raised as it is."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError) as error:
        functions = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
        ours = {"training_step", "validation_step", "save_translator", "test_step"}
        if resume is None or has_gone_on() or functions & ours:
            raise
        reason = f"{type(error).__name__}: {one_line(error, 200)}"
        raise ValueError(
            f"{resume.parent}: no run can continue from these checkpoints, their states do not fit it ({reason})"
        ) from error


def restore_numerics(machine: MachineSettings, accelerator: str, saved: dict[str, Any] | None) -> MachineSettings:
    """With the matmul precision that was measured to be best when the run began, unless one is set: timings differ. On
    another kind of device, another may be best."""
    if saved is None or machine.matmul_precision is not None:
        return machine
    before = saved["settings"]["numerics"]
    if before.get("device") not in (None, device_kind(accelerator)):  # None: a run of an earlier version
        return machine
    return replace(machine, matmul_precision=before["matmul_precision"])


def _within(key: str, groups: tuple[str, ...]) -> bool:
    return any(key == group or key.startswith(f"{group}.") for group in groups)


def changed_settings(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Each setting that has changed, and each test set, as a line.

    Raises UsageError, naming all of them, if some must not.
    """
    before, after = dict(flatten(saved)), dict(flatten(now))
    # A group that is null, as an attention that is left out, is one key.
    changed = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    lines = {key: f"{key}={shown(after.get(key))} (was {shown(before.get(key))})" for key in changed}
    refused = [lines[key] for key in changed if _within(key, FIXED)]
    if refused:
        raise UsageError(f"a resumed run cannot change {', '.join(refused)}: leave that out, or start a new run")
    if corpora := [key.removeprefix("digests.") for key in changed if _within(key, FIXED_CORPORA)]:
        raise UsageError(
            f"the files of {' and '.join(corpora)} are not those that the run was trained on: give it the files as "
            "they were, or start a new run"
        )
    tests = [f"the files of {key.removeprefix('digests.')}" for key in changed if _within(key, ("digests",))]
    return [lines[key] for key in changed if not _within(key, (*PATHS, "digests"))] + tests


def learning_rate(settings: dict[str, Any], steps: int) -> float | None:
    """The rate of the step after `steps`; None where it depends on time, or on how many steps an epoch has."""
    training, trainer = settings["training"], settings["trainer"]
    max_steps = trainer.get("max_steps", -1)
    if (
        type(max_steps) is not int
        or max_steps < 0
        or trainer.get("max_epochs", -1) not in (None, -1)
        or trainer.get("max_time")
    ):
        return None
    factor = learning_rate_factor(training["schedule"], training["warmup_steps"], max_steps)
    return float(training["learning_rate"] * factor(steps))


def check_resumption(saved: dict[str, Any] | None, settings: dict[str, Any], print_changes: bool) -> ResumePoint:
    """Compares the `settings` with those of the run that `read_run` has read, and prints changes on stderr.

    Raises UsageError where the run cannot go on with them.
    """
    if saved is None:
        return ResumePoint()
    steps, max_steps = saved["progress"]["steps"], settings["trainer"].get("max_steps", -1)
    if type(max_steps) is int and 0 <= max_steps < steps:
        raise UsageError(
            f"trainer.max_steps={max_steps}: the run has done {steps:,} steps already; give more, or leave it"
        )
    for line in changed_settings(saved["settings"], settings):
        if print_changes:
            say(f"changed: {line}")
    rates = [learning_rate(run, steps) for run in (saved["settings"], settings)]
    if print_changes and None not in rates and rates[0] != rates[1]:
        say(f"changed: the next step's learning rate is {rates[1]:.3g} (was {rates[0]:.3g})")
    return ResumePoint(saved["rows"], steps)
