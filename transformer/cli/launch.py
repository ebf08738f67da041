"""Starts a script: `hydra.main` composes its configuration; mistakes and failures cost one line.

A script is two functions. `read` makes typed settings of the configuration, which is plain data, and refuses what is
wrong; `work` does the work. An error before `work` begins is a mistake on the command line (exit status 2), a later one
a failure (1). Both import what is slow (torch, Lightning) inside, so that `--help` and a wrong key answer at once.
"""

import argparse
import functools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from unittest.mock import patch

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from transformer.cli.arguments import is_multirun, is_override, prepare, split
from transformer.cli.compose import CONFIGS, as_dict
from transformer.cli.errors import UsageError, report, say
from transformer.cli.mistakes import explain
from transformer.cli.runs import new_folders, remove_empty_folders
from transformer.cli.sweeps import check_trials, run_trial
from transformer.data.printable import SafeFormatter

Settings = TypeVar("Settings")


def launch(
    read: Callable[[dict[str, Any]], Settings],
    work: Callable[[Settings], dict[str, float] | None],
    config_name: str,
    configs: Path = CONFIGS,
) -> None:
    """Run a script with the configuration that the command line asks for, and exit."""
    open_closed_streams()
    typed = sys.argv[1:]
    debug = any(argument.lstrip("+").lower() == "debug=true" for argument in typed)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are told here
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(SafeFormatter())
    logging.getLogger("lightning").propagate = False  # it brings a handler of its own
    begun, errors = False, []
    prepared: list[str] = []

    @functools.wraps(work)
    def job(config: DictConfig) -> Any:
        nonlocal begun
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            begun = True
            return run_trial(read, work, as_dict(config), debug)
        sys.argv[1:] = typed  # Lightning hands them to the other processes of a run, which prepare them anew
        try:
            settings = read(as_dict(config))
            begun = True
            work(settings)
            sys.stdout.flush()
        except Exception as error:
            errors.append(error)  # kept from Hydra, which has its own way of printing it
        except SystemExit as stop:  # how Lightning ends after ctrl-c
            raise (KeyboardInterrupt() if isinstance(stop.__context__, KeyboardInterrupt) else stop) from None
        return None

    status = 0
    try:
        prepared = prepare(typed, configs)
        note_new_folder(typed)
        if sweep := any(map(is_multirun, typed)):
            folder = check_trials([line for line in prepared if is_override(line)], config_name, configs, read)
        sys.argv[1:] = prepared
        with patch.object(argparse.ArgumentParser, "error", refuse):  # it would print a usage of many lines
            hydra.main(version_base="1.3", config_path=str(configs), config_name=config_name)(job)()
        if errors:
            raise errors[0]
        if sweep:
            from transformer.cli.sweep_table import show_sweep

            status = 0 if show_sweep(folder) else 1
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("stopped")
        status = 130
    except Exception as error:
        if isinstance(error, BrokenPipeError) and stdout_is_closed():
            status = 141
        else:
            status = 1 if begun else 2
            report(error if begun else explain(error, typed, prepared, config_name, configs), debug)
    if status:
        remove_empty_folders()
        sys.exit(status)


def open_closed_streams() -> None:
    """Let what goes to a closed stdout or stderr go nowhere, and let no file that is opened later take their numbers.

    A closed stdin stays None.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def note_new_folder(typed: list[str]) -> None:
    """Remember a run's folder that is typed and not there yet: Hydra makes it before the settings are read."""
    for key, value in (split(argument)[1:] for argument in typed):
        if key == "hydra.run.dir" and not Path(value).exists():
            new_folders.append(Path(value))
        elif key == "hydra.run.dir" and not Path(value).is_dir():
            raise UsageError(f"hydra.run.dir={value} is a file: name a folder")


def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    raise UsageError(f"{message}; --help shows the usage")


def stdout_is_closed() -> bool:
    """Tell a reader that has gone (`translate.py | head`) from other broken pipes, and keep the exit quiet."""
    try:
        print(flush=True)  # an empty line: no system can tell without writing
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own last flush
        return True
    return False
