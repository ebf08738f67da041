"""Back-translation, all of it: `python scripts/back_translate.py data=… input=TEXT output=FOLDER` (docs/augment.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.cli.pipeline import Stage

Job = tuple[dict[str, Any], list["Stage"]]


def read(config: dict[str, Any]) -> Job:
    from transformer.cli.pipeline import back_translation
    from transformer.cli.runs import check_output
    from transformer.config import UsageError

    if config["resume"] or config["init_from"]:
        raise UsageError("leave out resume= and init_from=: the same command goes on where it was stopped")
    check_output(config["output"], folder=True)
    return config, back_translation(config, sys.argv[1:])


def back_translate(job: Job) -> None:
    from transformer.cli.lines import count_lines
    from transformer.cli.pipeline import run_stages
    from transformer.cli.settings import run_settings
    from transformer.config import UsageError
    from transformer.data.printable import print_safely
    from transformer.training.config import read_run_settings

    config, stages = job
    read_run_settings(run_settings(config)).data.fetch()
    if not count_lines(config["input"]):
        raise UsageError(f"input={config['input']} is no file with lines in it")
    folder = Path(config["output"])
    run_stages(stages, folder)
    for run in ("forward", "final") if config["test"] else ():
        scores = json.loads((folder / run / "test.json").read_bytes())["test"]
        print_safely(f"{run}: {'   '.join(f'{name} {scores[name]:.1f}' for name in config['metrics'])}")


if __name__ == "__main__":
    launch(read, back_translate, config_name="back_translate")
