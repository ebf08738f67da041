"""The trials of a sweep: all are checked before the first begins; each has a process of its own."""

import json
import logging
import multiprocessing
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from transformer.cli.compose import as_dict
from transformer.cli.errors import UsageError, describe, report
from transformer.cli.mistakes import alternatives

Read = Callable[[dict[str, Any]], Any]
Work = Callable[[Any], dict[str, float] | None]


def check_trials(overrides: list[str], config_name: str, configs: Path, read: Read) -> Path:
    """Read the settings of every trial, so that a mistake in the last is told before the first; return the folder."""
    with hydra.initialize_config_dir(str(configs), version_base="1.3", job_name=config_name):
        loader = GlobalHydra.instance().config_loader()
        base = hydra.compose(config_name, return_hydra_config=True)
        given = {re.split("[=@]", line.lstrip("+~"))[0] for line in overrides}
        swept = OmegaConf.select(base, "hydra.sweeper.params") or {}
        lines = [*overrides, *(f"{key}={value}" for key, value in swept.items() if key not in given)]
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(lines)
        # Each value of a sweep is tried once, not each combination: seconds, not minutes.
        trials = [[alternatives(override)[0] for override in parsed]]
        first = trials[0]
        for place, override in enumerate(parsed):
            trials += [[*first[:place], other, *first[place + 1 :]] for other in alternatives(override)[1:]]
        for trial in trials:
            settings = as_dict(hydra.compose(config_name, trial))
            check_devices(settings.get("trainer") or {})
            read(settings)
        folder = Path(str(hydra.compose(config_name, first, return_hydra_config=True).hydra.sweep.dir))
    for stale in folder.rglob("result.json"):
        stale.unlink()
    return folder


def check_devices(trainer: dict[str, Any]) -> None:
    """Refuse trials of several processes: Lightning would start them with the arguments of the whole sweep."""
    strategy, devices = str(trainer.get("strategy", "auto")), str(trainer.get("devices", 1))
    if strategy.startswith("ddp") or not re.fullmatch(r"1|auto|\[\d+\]", devices):
        raise UsageError(
            f"-m cannot train with trainer.strategy={strategy} trainer.devices={devices}: "
            "use trainer=cpu or trainer=gpu with trainer.devices=1"
        )


def run_trial(read: Read, work: Work, config: dict[str, Any], debug: bool) -> Any:
    """Do the work of one trial in a process of its own: its memory is its own, and a crash ends no other trial."""
    job = HydraConfig.get()
    arguments = (read, work, config, HydraConfig.instance().cfg, debug)
    outcome = Path(job.runtime.output_dir, "result.json")
    if not job.launcher._target_.endswith(".BasicLauncher"):
        _work_and_record(*arguments)  # a launcher such as submitit has started a process already
        return _results(outcome)
    process = multiprocessing.get_context("spawn").Process(target=_work_and_record, args=arguments)
    process.start()
    process.join()
    if process.exitcode == 130:
        raise KeyboardInterrupt
    if not outcome.exists():
        signalled = process.exitcode is not None and process.exitcode < 0
        how = signal.Signals(-process.exitcode).name if signalled else f"status {process.exitcode}"  # type: ignore[operator]
        _record(None, f"the process of this trial ended with {how}")
    return _results(outcome)


def _work_and_record(read: Read, work: Work, config: dict[str, Any], hydra_config: Any, debug: bool) -> None:
    HydraConfig.instance().set_config(hydra_config)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    results, message = None, ""
    try:
        results = work(read(config))
    except KeyboardInterrupt:
        sys.exit(130)  # the sweep was interrupted with it, and says so
    except Exception as error:
        report(error, debug)
        message = describe(error)
    _record(results, message)


def _record(results: dict[str, float] | None, error: str) -> None:
    """Leave a trial's outcome in its folder, where any launcher's process can, for the table of the sweep."""
    job = HydraConfig.get()
    outcome = {
        "trial": job.job.num,
        "overrides": dict(re.findall(r"(?s)^[+~]*([^=]*)=?(.*)", override)[0] for override in job.overrides.task),
        "results": {key: float(value) for key, value in (results or {}).items()},
        "error": error,
    }
    Path(job.runtime.output_dir, "result.json").write_text(json.dumps(outcome), encoding="utf-8")


def _results(outcome: Path) -> Any:
    """Read a trial's results; to a sweeper that optimizes, a failed trial is nan."""
    trial = json.loads(outcome.read_text(encoding="utf-8"))
    return float("nan") if trial["error"] else trial["results"]
