"""The trials of a sweep: each in a process of its own, its outcome in its folder."""

import json
import logging
import multiprocessing
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals
from omegaconf import DictConfig

from transformer.cli.errors import describe, report


def run_trial(function: Callable[[DictConfig], Any], config: DictConfig, hydra_config: Any, debug: bool) -> None:
    """Do the work of one trial in this process, which is its own, and leave the outcome in its folder."""
    setup_globals()  # Hydra's resolvers
    HydraConfig.instance().set_config(hydra_config)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    results: Any = None
    message = ""
    try:
        results = function(config)
    except KeyboardInterrupt:
        sys.exit(130)  # the sweep was interrupted with it, and says so
    except Exception as error:
        report(error, debug)
        message = describe(error)
    record(results, message)


def record(results: Any, error: str) -> None:
    """Leave a trial's outcome in its folder, where any launcher's process can, for the table of the sweep."""
    job = HydraConfig.get()
    if results is not None and not isinstance(results, dict):
        results = {"result": results}
    outcome = {
        "trial": job.job.num,
        "overrides": dict(re.findall(r"(?s)^[+~]*([^=]*)=?(.*)", override)[0] for override in job.overrides.task),
        "results": {key: float(value) for key, value in (results or {}).items()},
        "error": error,
    }
    Path(job.runtime.output_dir, "result.json").write_text(json.dumps(outcome), encoding="utf-8")


def trial(function: Callable[[DictConfig], Any], config: DictConfig, debug: bool) -> Any:
    """Give a trial a process of its own: its memory is its own, and a crash ends no other trial."""
    outcome = Path(HydraConfig.get().runtime.output_dir, "result.json")
    arguments = (function, config, HydraConfig.instance().cfg, debug)
    process = multiprocessing.get_context("spawn").Process(target=run_trial, args=arguments)
    process.start()
    process.join()
    if process.exitcode == 130:
        raise KeyboardInterrupt
    if not outcome.exists():
        signalled = process.exitcode is not None and process.exitcode < 0
        how = signal.Signals(-process.exitcode).name if signalled else f"status {process.exitcode}"  # type: ignore[operator]
        record(None, f"the process of this trial ended with {how}")
    return outcome_of(outcome)


def outcome_of(file: Path) -> Any:
    """Read a trial's results; nan is a failed trial to a sweeper that optimises."""
    ended = json.loads(file.read_text(encoding="utf-8"))
    return float("nan") if ended["error"] else ended["results"]
