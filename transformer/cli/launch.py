"""Starts a script: `hydra.main` composes its configuration; mistakes, failures and signals cost one line.

A script is two functions. `read` makes typed settings of the configuration, which is plain data, and refuses what is
wrong; `work` does the work. The exit status is 2 for a mistake that a user can correct on the command line, 1 for any
other failure, and 128 + its number for a signal. All that is slow to import is imported within functions, here and in
the scripts: signals are handled from the first moment, and `--help` and a wrong key are answered without torch.
"""

import argparse
import functools
import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from transformer import __version__
from transformer.cli import CONFIGS, Read, Work
from transformer.config import UsageError
from transformer.signals import SIGNALS, Interrupted, SignalHandler


class PastHydra(BaseException):
    """Carries an error, its cause, past Hydra, which would print it in its own way."""


def open_closed_streams() -> None:
    """Let what goes to a closed stdout or stderr go nowhere, and let no file that is opened later take their numbers.

    A closed stdin stays None.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """In place of argparse's own method, which prints a usage of many lines."""
    raise argparse.ArgumentError(None, message)


def run_script(read: Read, work: Work, config_name: str, configs: Path) -> int:
    """Return the exit status of a script; its errors are printed."""
    typed = sys.argv[1:]
    # Imported objects stay alive: collecting garbage among them again and again took a fifth of the import time.
    gc.disable()
    import hydra
    from omegaconf import DictConfig

    from transformer.cli.arguments import is_sweep, prepare, quote, split_override
    from transformer.cli.compose import read_settings
    from transformer.cli.errors import configure_output, report, stdout_error
    from transformer.cli.hydra_errors import explain_error
    from transformer.cli.runs import note_new_folder, remove_empty_folders, trial_folder
    from transformer.cli.sweeps import check_trials, outcomes, run_trial
    from transformer.files import expanded

    debug = any(argument.lstrip("+").lower() == "debug=true" for argument in typed)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and they are printed here
    argparse.ArgumentParser.error = refuse  # type: ignore[assignment, method-assign]
    configure_output()
    begun = False

    @functools.wraps(work)
    def job(config: DictConfig) -> None:
        nonlocal begun
        try:
            if trial_folder():
                begun = True
                return run_trial(read, work, config, debug)
            sys.argv[1:] = typed  # Lightning hands them to the other processes of a run, which prepare them again
            with SignalHandler():  # one that sees the errors, which are reported below and do not reach the outer one
                settings = read_settings(read, config)
                begun = True
                gc.freeze()
                gc.enable()
                work(settings)
        except Exception as error:
            raise PastHydra from error

    try:
        if "--version" in typed:
            print(f"transformer-translator {__version__}", flush=True)
            return 0
        arguments, sweep_folder = prepare(typed, configs), None
        for folder in (value for _, key, value in map(split_override, typed) if key == "hydra.run.dir"):
            note_new_folder(expanded(folder))  # Hydra makes it before the settings are read
        if is_sweep(typed):
            gc.enable()
            sweep_folder = check_trials(arguments, config_name, configs, read)
            earlier = outcomes(sweep_folder)
            # The folder that was checked: composed again, a name with the time in it may be another.
            others = [word for word in arguments if split_override(word)[1] != "hydra.sweep.dir"]
            arguments = [f"hydra.sweep.dir={quote(str(sweep_folder))}", *others]
        sys.argv[1:] = arguments
        try:
            hydra.main(version_base="1.3", config_path=str(configs), config_name=config_name)(job)()
        except SystemExit:  # so one of Hydra's own options ends, such as --help
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        if sweep_folder is None:
            return 0
        from transformer.cli.sweep_table import show_sweep

        return 0 if show_sweep(sweep_folder, earlier) else 1
    except (Exception, PastHydra) as caught:
        error: Any = caught.__cause__ if isinstance(caught, PastHydra) else caught
    finally:
        remove_empty_folders()
    at_stdout = stdout_error(error)
    if isinstance(at_stdout, BrokenPipeError):
        return 141
    report(error, debug, str(at_stdout or explain_error(error, typed, config_name, configs)))
    return 1 if begun and not isinstance(error, UsageError) else 2


def launch(read: Read, work: Work, config_name: str, configs: Path = CONFIGS) -> None:
    """Run a script with the configuration that the command line asks for, and exit."""
    open_closed_streams()
    try:
        with SignalHandler():
            status = run_script(read, work, config_name, configs)
    except Interrupted as stopped:
        from transformer.data.printable import say
        from transformer.processes import rank

        status = 128 + stopped.number
        if rank() == 0:
            say(str(stopped))
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # from here on, it ends the process without a traceback
    sys.exit(status)
