"""The trials of a sweep: they are checked before the first begins; each has a process of its own."""

import contextlib
import itertools
import json
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
from hydra.main import get_args_parser
from omegaconf import DictConfig

from transformer.cli import Read, Work
from transformer.cli.arguments import quote, split_override
from transformer.cli.compose import as_dict, read_settings
from transformer.cli.errors import configure_output, describe, report, stdout_error
from transformer.cli.runs import output_folder
from transformer.config import UsageError
from transformer.data.printable import say, shell_path
from transformer.files import atomic_write, is_written_through
from transformer.signals import Interrupted, SignalHandler

# A sweep of at most this many trials is checked in full before the first begins, which takes a few seconds.
MAX_FULLY_CHECKED_TRIALS = 32
# Hydra sets these in a trial; `read` sees from them that it reads for a trial, and in which folder.
IN_TRIAL = ("hydra.mode=MULTIRUN", "hydra.runtime.output_dir=${hydra.sweep.dir}/${hydra.sweep.subdir}")
ONE_PROCESS = {"strategy": "auto", "devices": 1, "num_nodes": 1}
OUTCOME = "trial.json"  # in the folder of a trial: its number, overrides, results and error


def trials_to_check(choices: list[list[str]]) -> Iterator[tuple[int, Sequence[str]]]:
    """Combine the values of a sweep: all with all, as its trials do, but of very many trials each value only once.

    Each comes with the number of its trial.
    """
    if math.prod(map(len, choices)) <= MAX_FULLY_CHECKED_TRIALS:
        yield from enumerate(itertools.product(*choices))
        return
    first = [values[0] for values in choices]
    yield 0, first
    for index, values in enumerate(choices):
        step = math.prod(map(len, choices[index + 1 :]))
        for place, value in enumerate(values[1:], 1):
            yield place * step, [*first[:index], value, *first[index + 1 :]]


def check_devices(config: DictConfig) -> None:
    """Refuse trials of several processes: Lightning would start them with the arguments of the whole sweep."""
    trainer = config.get("trainer")
    trainer = ONE_PROCESS | (dict(trainer) if isinstance(trainer, DictConfig) else {})
    if any(trainer[name] != value for name, value in ONE_PROCESS.items()):
        given = " ".join(f"trainer.{name}={trainer[name]}" for name in ONE_PROCESS)
        raise UsageError(f"-m cannot train with {given}: use trainer=cpu or trainer=gpu with trainer.devices=1")


def check_place(key: str, place: str | None, taken: set[str]) -> None:
    """Refuse a file that an earlier trial writes too: only what the last one wrote would be left."""
    if place in taken:
        raise UsageError(
            f"{key}={place}: a path is taken as it is typed, and each trial would write over this: give one command "
            f"for each value, with its own {key}="
        )
    if place is not None and (Path(place).is_dir() or not is_written_through(Path(place))):
        taken.add(place)


def check_trials(arguments: list[str], config_name: str, configs: Path, read: Read) -> Path:
    """Read the settings of the trials as they will, so that a mistake in the last one is reported before the first
    begins (of very many trials, each value once).

    Returns the folder of the sweep.
    """
    typed = get_args_parser().parse_args(arguments)
    if typed.config_dir:
        typed.overrides.append(f"hydra.searchpath=[{quote(f'file://{Path(typed.config_dir).absolute()}')}]")
    with hydra.initialize_config_dir(str(configs), version_base="1.3", job_name=config_name):
        parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
        choices = [
            [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
            if override.is_sweep_override()
            else [str(override.input_line)]
            for override in parser.parse_overrides(typed.overrides)
        ]
        composed = [
            hydra.compose(config_name, [*trial, *IN_TRIAL, f"hydra.job.num={number}"], return_hydra_config=True)
            for number, trial in trials_to_check(choices)
        ]
        folder = str(composed[0].hydra.sweep.dir)
        # The folder of evaluate.py takes the results of several splits.
        taken: dict[str, set[str]] = {} if config_name == "evaluate" else {"output": set(), "alignments": set()}
        try:
            for config in composed:
                check_devices(config)
                config.hydra.sweep.dir = folder
                HydraConfig.instance().set_config(config)
                read_settings(read, config)
                for key, places in taken.items():
                    check_place(key, config.get(key), places)
        finally:
            HydraConfig.instance().cfg = None
        return Path(folder)


def outcomes(folder: Path) -> dict[Path, int]:
    """When each trial in a folder left its outcome: this distinguishes those of an earlier sweep from new ones."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob(OUTCOME)}


def _record(results: dict[str, float], error: str) -> None:
    """Leave a trial's outcome in its folder, where any launcher's process can, for the table of the sweep."""
    hydra_config = HydraConfig.get()
    outcome = {
        "trial": hydra_config.job.num,
        # Paths arrive in quotes (arguments.quote), which nobody has typed.
        "overrides": {
            key: re.sub("^'(.*)'$", r"\1", value) for _, key, value in map(split_override, hydra_config.overrides.task)
        },
        "results": {key: float(value) for key, value in results.items()},
        "error": error,
    }
    # Whole or not at all: one file that a full disk cut off would cost the table of all trials.
    atomic_write(output_folder() / OUTCOME, json.dumps(outcome).encode())


def _work_and_record(read: Read, work: Work, config: dict[str, Any], hydra_config: Any, debug: bool) -> None:
    HydraConfig.instance().set_config(hydra_config)
    configure_output()
    try:
        with SignalHandler():
            results = work(read(config)) or {}
            sys.stdout.flush()
            _record(results, "")
    except Interrupted as stopped:
        # In a process of its own the signal may be the one that run_trial sent: run_trial names the original.
        say(stopped.message(names_signal=multiprocessing.parent_process() is None))
        sys.exit(128 + stopped.number)
    except Exception as error:
        line = describe(stdout_error(error) or error)
        report(error, debug, line)
        with contextlib.suppress(OSError):  # run_trial finds no outcome, and tells why none can be written
            _record({}, line)


def run_trial(read: Read, work: Work, config: DictConfig, debug: bool) -> None:
    """Do the work of one trial in a process of its own: its memory is its own, and a crash ends no other trial."""
    hydra_config, outcome = HydraConfig.get(), output_folder() / OUTCOME
    outcome.unlink(missing_ok=True)  # of an earlier sweep into the same folder
    arguments = (read, work, as_dict(config), HydraConfig.instance().cfg, debug)
    if not hydra_config.launcher._target_.endswith(".BasicLauncher"):
        _work_and_record(*arguments)  # a launcher such as submitit has started a process already
        return
    process = multiprocessing.get_context("spawn").Process(target=_work_and_record, args=arguments)
    process.start()
    try:
        process.join()
    except Interrupted as stopped:
        stopped.advice = f"what its trials have left is in {shell_path(Path(hydra_config.sweep.dir))}"
        if stopped.number == signal.SIGTERM:  # Ctrl-C in a terminal has reached the trial too
            os.kill(process.pid, signal.SIGTERM)  # type: ignore[arg-type]
        process.join()
        raise
    if not outcome.exists():
        code = process.exitcode or 0
        names = {number.value: number.name for number in signal.Signals}  # not of every real-time signal
        _record({}, f"the process of this trial ended with {names.get(-code, code)}")
