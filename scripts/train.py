"""Trains a translator: `python scripts/train.py [group.key=value …]`; configs/train.yaml lists every setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.training.config import RunSettings


class Job(NamedTuple):
    settings: RunSettings
    model: dict[str, Any]
    checkpoint: Path | None  # to go on from


def read(config: dict[str, Any]) -> Job:
    """Check all settings of the run, but for what only its corpus can tell."""
    from transformer.cli.resume import resume_run
    from transformer.cli.runs import check_init_from, check_new_run
    from transformer.cli.settings import model_to_train, run_settings
    from transformer.model.config import read_model
    from transformer.training.config import check_settings, read_run_settings

    settings, checkpoint = resume_run(config) if config["resume"] else (run_settings(config), None)
    typed = read_run_settings(settings)
    if checkpoint is None:
        check_new_run()
        check_init_from(config["init_from"])  # as it was typed
        settings["model"] = model_to_train(settings)
    check_settings(typed, read_model(settings["model"]))
    if checkpoint is None:
        typed.data.check_files()
    from transformer.training.checks import check_trainer  # Lightning, which takes a second

    return Job(replace(typed, trainer=check_trainer(typed.trainer)), settings["model"], checkpoint)


def train(job: Job) -> dict[str, float]:
    from transformer.cli.runs import output_folder, training_in, trial_folder
    from transformer.training.results import show_result
    from transformer.training.train import run

    folder = output_folder()
    with training_in(folder):
        result = run(job.settings, job.model, folder, job.checkpoint, replace=trial_folder() is not None)
    show_result(result, folder, job.settings.search)
    return result.numbers()


if __name__ == "__main__":
    launch(read, train, config_name="train")
