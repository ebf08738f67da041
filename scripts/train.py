"""Trains a translator: `python scripts/train.py [group.key=value …]`; configs/train.yaml lists every setting."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from transformer.cli.errors import rank, say
from transformer.cli.launch import launch
from transformer.cli.resume import mark_cache, resume_run
from transformer.cli.runs import LOCK, as_typed, check_init_from, check_new_run, output_folder
from transformer.cli.settings import run_settings

Run = tuple[dict[str, Any], Path | None]


def read(config: dict[str, Any]) -> Run:
    """Return the settings of the run, checked but for what only the corpus can tell, and the checkpoint to resume."""
    from transformer.device import choose_precision
    from transformer.training.config import read_run_settings
    from transformer.training.loggers import quiet
    from transformer.training.validate import validate_settings

    quiet()
    if config["resume"]:
        settings, checkpoint = resume_run(config)
    else:
        settings, checkpoint = run_settings(config), None
        check_new_run()
        check_init_from(settings["init_from"])
    read_run_settings(settings)
    settings["trainer"] = choose_precision(settings["trainer"])
    validate_settings(settings)
    return settings, checkpoint


def train(job: Run) -> dict[str, float]:
    # Importing torch and Lightning takes seconds, which a wrong key need not wait for.
    from transformer.evaluation.run_files import write_config
    from transformer.files import exclusive_lock
    from transformer.training.callbacks.nonfinite import NonFiniteError
    from transformer.training.callbacks.signals import Interrupted
    from transformer.training.config import read_run_settings
    from transformer.training.loggers import first_process
    from transformer.training.results import show_result
    from transformer.training.train import run

    (settings, checkpoint), folder = job, output_folder()
    typed = read_run_settings(settings)

    def begins() -> None:
        if first_process():
            write_config(folder, settings)
            mark_cache(Path(typed.data.cache))

    try:
        # One run writes into a folder at a time: before loggers are built, which cut the log back to the checkpoint.
        with exclusive_lock(folder / LOCK, f"the run {folder}") if rank() == 0 else nullcontext():
            result = run(typed, settings["model"], settings["trainer"], folder, checkpoint, begins)
    except (NonFiniteError, Interrupted) as error:
        if not first_process():
            # The first speaks for all; Lightning kills all processes when one of those that it has started fails.
            sys.exit(0)
        if isinstance(error, NonFiniteError):
            raise
        is_saved = (folder / "checkpoints" / "last.ckpt").exists()
        go_on = f"go on with: python scripts/train.py resume={as_typed(folder)}"
        say(f"{error}; {go_on if is_saved else 'nothing was saved yet'}")
        sys.exit(128 + error.number)
    if first_process():
        show_result(result, as_typed(folder), typed.search)
    if not result.scores:
        bleu = result.validation_bleu
        return ({} if bleu is None else {"validation/bleu": bleu}) | result.cost
    scores = {f"{split}/{name}": v for split, scores in result.scores.items() for name, v in scores.values.items()}
    return scores | result.cost


if __name__ == "__main__":
    launch(read, train, config_name="train")
