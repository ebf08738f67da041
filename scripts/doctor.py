"""Looks at a corpus before training: `python scripts/doctor.py data=… [minutes=6] [output=FILE.json] [fix=FOLDER]`."""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

from transformer.cli.launch import launch


def read(config: dict[str, Any]) -> dict[str, Any]:
    from transformer.cli.runs import check_output

    check_minutes(config["minutes"])
    from transformer.cli.settings import run_settings
    from transformer.doctor.fix import check_new
    from transformer.training.config import read_run_settings
    from transformer.training.validate import validate_trainer_names

    settings = run_settings(config)
    read_run_settings(settings)
    validate_trainer_names(settings["trainer"])
    if config["fix"]:
        check_new(Path(config["fix"]).expanduser())
    if config["output"]:
        check_output(config["output"], folder=False)
    return config


def check_minutes(minutes: Any) -> None:
    """Refuse what is no time, and settings that decide how long training takes besides."""
    from transformer.cli.settings import typed_keys
    from transformer.config import UsageError

    if minutes is None:
        return
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not 0 < minutes < math.inf:
        raise UsageError(f"minutes={minutes} must be a number > 0")
    if clash := typed_keys() & {"trainer.max_steps", "trainer.max_epochs", "trainer.max_time"}:
        raise UsageError(f"minutes= chooses how long to train: leave out {min(clash)}")


def doctor(config: dict[str, Any]) -> None:
    from transformer.cli.settings import run_settings, training_for
    from transformer.data.printable import print_safely
    from transformer.doctor.examine import examine
    from transformer.doctor.report import next_command, show
    from transformer.files import atomic_write
    from transformer.training.config import read_run_settings

    fix = Path(config["fix"]).expanduser() if config["fix"] else None
    minutes = None if config["minutes"] is None else float(config["minutes"])
    corpus = read_run_settings(run_settings(config)).data
    report, chosen = examine(corpus, partial(training_for, config), fix, minutes)
    if config["output"]:
        atomic_write(Path(config["output"]), json.dumps(report, indent=2, ensure_ascii=False).encode())
    show(report)
    dropped = 0 if minutes else report["dropped"]
    print_safely("", "Next:", f"  {next_command(sys.argv[1:], corpus, fix, chosen, dropped)}")


if __name__ == "__main__":
    launch(read, doctor, config_name="doctor")
