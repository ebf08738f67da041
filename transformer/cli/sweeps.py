"""The trials of a sweep: all are checked before the first begins; each has a process of its own."""

import itertools
import json
import logging
import math
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from omegaconf import DictConfig

from transformer.cli import Read, Work
from transformer.cli.arguments import split
from transformer.cli.compose import as_dict, read_settings
from transformer.cli.errors import describe, report
from transformer.cli.runs import as_typed
from transformer.config import UsageError
from transformer.data.printable import say
from transformer.training.callbacks.signals import Interrupted, SignalHandler

# Of at most so many trials every one is checked before the first begins: in a few seconds.
ALL_CHECKED = 32


def checked_trials(choices: list[list[str]]) -> Iterator[Sequence[str]]:
    """Combine the values of a sweep: all with all, as its trials do, but of very many trials each value only once."""
    if math.prod(map(len, choices)) <= ALL_CHECKED:
        yield from itertools.product(*choices)
        return
    first = [values[0] for values in choices]
    yield first
    for index, values in enumerate(choices):
        yield from ([*first[:index], value, *first[index + 1 :]] for value in values[1:])


def alternatives(override: Override) -> list[str]:
    """Write an override once for each value that it sweeps over."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if isinstance(interval := override.value(), IntervalSweep):
        return [f"{override.get_key_element()}={interval.start}"]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def check_devices(trainer: dict[str, Any]) -> None:
    """Refuse trials of several processes: Lightning would start them with the arguments of the whole sweep."""
    strategy, devices = str(trainer.get("strategy", "auto")), str(trainer.get("devices", 1))
    if strategy.startswith("ddp") or not re.fullmatch(r"1|auto|\[\d+\]", devices):
        raise UsageError(
            f"-m cannot train with trainer.strategy={strategy} trainer.devices={devices}: "
            "use trainer=cpu or trainer=gpu with trainer.devices=1"
        )


def check_trials(overrides: list[str], config_name: str, configs: Path, read: Read) -> Path:
    """Read the settings of every trial, so that a mistake in the last is reported before the first trial.

    Returns the folder of the sweep.
    """
    with hydra.initialize_config_dir(str(configs), version_base="1.3", job_name=config_name):
        parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
        trials = list(checked_trials([alternatives(override) for override in parser.parse_overrides(overrides)]))
        composed = [hydra.compose(config_name, list(trial), return_hydra_config=True) for trial in trials]
        for config in composed:
            check_devices(config.get("trainer") or {})
            read_settings(read, config)
        return Path(str(composed[0].hydra.sweep.dir))


def outcomes(folder: Path) -> dict[Path, int]:
    """When each trial in a folder left its outcome: this distinguishes those of an earlier sweep from new ones."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("trial.json")}


def _record(results: dict[str, float] | None, error: str) -> None:
    """Leave a trial's outcome in its folder, where any launcher's process can, for the table of the sweep."""
    job = HydraConfig.get()
    outcome = {
        "trial": job.job.num,
        # Paths arrive in quotes (arguments.quote), which nobody has typed.
        "overrides": {key: re.sub("^'(.*)'$", r"\1", value) for _, key, value in map(split, job.overrides.task)},
        "results": {key: float(value) for key, value in (results or {}).items()},
        "error": error,
    }
    Path(job.runtime.output_dir, "trial.json").write_text(json.dumps(outcome), encoding="utf-8")


def _work_and_record(read: Read, work: Work, config: dict[str, Any], hydra_config: Any, debug: bool) -> None:
    HydraConfig.instance().set_config(hydra_config)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    results, message = None, ""
    try:
        with SignalHandler():
            results = work(read(config))
    except Interrupted as stopped:
        say(str(stopped))
        sys.exit(128 + stopped.number)
    except Exception as error:
        report(error, debug)
        message = describe(error)
    _record(results, message)


def _results(outcome: Path) -> Any:
    """Read a trial's results; to a sweeper that optimizes, a failed trial is nan."""
    trial = json.loads(outcome.read_text(encoding="utf-8"))
    return float("nan") if trial["error"] else trial["results"]


def run_trial(read: Read, work: Work, config: DictConfig, debug: bool) -> Any:
    """Do the work of one trial in a process of its own: its memory is its own, and a crash ends no other trial."""
    job = HydraConfig.get()
    outcome = Path(job.runtime.output_dir, "trial.json")
    outcome.unlink(missing_ok=True)  # of an earlier sweep into the same folder
    arguments = (read, work, as_dict(config), HydraConfig.instance().cfg, debug)
    if not job.launcher._target_.endswith(".BasicLauncher"):
        _work_and_record(*arguments)  # a launcher such as submitit has started a process already
        return _results(outcome)
    process = multiprocessing.get_context("spawn").Process(target=_work_and_record, args=arguments)
    process.start()
    try:
        process.join()
    except Interrupted as stopped:
        stopped.advice = f"what its trials have left is in {as_typed(Path(job.sweep.dir))}"
        if hasattr(signal, "SIGUSR1"):  # which asks only once, should the trial have received the other signal too
            os.kill(process.pid, signal.SIGUSR1)  # type: ignore[arg-type]
        process.join()
        raise
    if not outcome.exists():
        code = process.exitcode or 0
        _record(None, f"the process of this trial ended with {signal.Signals(-code).name if code < 0 else code}")
    return _results(outcome)
