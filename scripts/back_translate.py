"""Back-translation, all of it: `python scripts/back_translate.py data=… input=TEXT output=FOLDER` (docs/augment.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.cli.pipeline import Stage
    from transformer.data.corpus import DataSettings

Job = tuple[dict[str, Any], "DataSettings", list["Stage"]]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.back_translation import back_translation, check_texts, check_typed
    from transformer.cli.places import check_output_folder
    from transformer.cli.runs import check_init_from
    from transformer.cli.settings import run_settings
    from transformer.config import UsageError
    from transformer.training.config import read_run_settings

    check_typed(typed := sys.argv[1:])
    if config["resume"]:
        raise UsageError("leave out resume=: the same command continues where it was stopped")
    check_init_from(config["init_from"])
    check_output_folder(config["output"])
    data = read_run_settings(run_settings(config)).data
    if config["input"] and not config["folds"]:
        check_texts(data, config["input"])
    return config, data, back_translation(config, data, typed)


def back_translate(job: Job) -> None:
    from transformer.cli.back_translation import check_texts, check_translator, show_final_scores
    from transformer.cli.pipeline import run_stages

    config, data, stages = job
    data.fetch()
    if not config["input"] and not config["folds"]:
        check_texts(data, None)  # fetched with the corpus
    if config["init_from"]:
        check_translator(config["init_from"], data)
    folder = Path(config["output"])
    run_stages(stages, folder)
    show_final_scores(folder, data)


if __name__ == "__main__":
    launch(read, back_translate, config_name="back_translate")
