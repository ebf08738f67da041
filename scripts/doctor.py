"""Looks at a corpus before training: `python scripts/doctor.py data=… [output=FILE.json] [fix=FOLDER]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.data.corpus import DataSettings
    from transformer.doctor.plan import Plan

# The corpus, the plan of a run with such overrides beneath what was typed, fix= and output=.
Job = tuple["DataSettings", Callable[[tuple[str, ...]], "Plan"], Path | None, str | None]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.places import check_can_be_written, check_output_file
    from transformer.cli.runs import check_init_from, trial_folder
    from transformer.cli.settings import plan_for, run_settings
    from transformer.config import UsageError

    if trial_folder():
        raise UsageError("-m: this script runs no sweep: give one command for each value")
    if config["output"]:
        check_output_file(config["output"], [".json"])
    from transformer.doctor.fix import check_new
    from transformer.training.config import read_run_settings

    corpus = read_run_settings(run_settings(config)).data
    check_init_from(config["init_from"])
    if fix := Path(config["fix"]).expanduser() if config["fix"] else None:
        check_new(fix)
        check_can_be_written(fix, "fix")
    return corpus, partial(plan_for, config), fix, config["output"]


def doctor(job: Job) -> None:
    from transformer.doctor.examine import examine
    from transformer.doctor.report import show, show_next
    from transformer.files import atomic_write

    corpus, plan_for, fix, output = job
    report, chosen = examine(corpus, plan_for, fix)
    if output:
        atomic_write(Path(output), json.dumps(report, indent=2, ensure_ascii=False).encode())
    show(report)
    show_next(report, sys.argv[1:], corpus, fix, chosen)


if __name__ == "__main__":
    launch(read, doctor, config_name="doctor")
