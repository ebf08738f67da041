"""Looks at a corpus before training: `python scripts/doctor.py data=… [minutes=6] [output=FILE.json] [fix=FOLDER]`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from transformer.cli.launch import launch


def read(config: dict[str, Any]) -> dict[str, Any]:
    from transformer.cli.runs import check_output_file
    from transformer.cli.settings import doctor_minutes, run_settings

    doctor_minutes(config)
    if config["output"]:
        check_output_file(config["output"], [".json"])
    from transformer.doctor.fix import check_new
    from transformer.training.checks import check_trainer_names
    from transformer.training.config import read_run_settings

    settings = run_settings(config)
    read_run_settings(settings)
    check_trainer_names(settings["trainer"])
    if config["fix"]:
        check_new(Path(config["fix"]).expanduser())
    return config


def doctor(config: dict[str, Any]) -> None:
    from transformer.cli.settings import doctor_minutes, run_settings, training_for
    from transformer.data.printable import print_safely
    from transformer.doctor.examine import examine
    from transformer.doctor.report import next_command, show
    from transformer.files import atomic_write
    from transformer.training.config import read_run_settings

    fix = Path(config["fix"]).expanduser() if config["fix"] else None
    minutes = doctor_minutes(config)
    corpus = read_run_settings(run_settings(config)).data
    report, chosen = examine(corpus, partial(training_for, config), fix, minutes)
    if config["output"]:
        atomic_write(Path(config["output"]), json.dumps(report, indent=2, ensure_ascii=False).encode())
    show(report)
    clean = report["can_be_cleaned"] and not minutes
    if "error" in report["tokenizer"] and not clean:
        return  # no command trains on it as it is
    print_safely("", "Next:", f"  {next_command(sys.argv[1:], corpus, fix, chosen, clean)}")


if __name__ == "__main__":
    launch(read, doctor, config_name="doctor")
