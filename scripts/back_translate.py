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
    from transformer.cli.back_translation import back_translation
    from transformer.cli.runs import check_init_from, check_output_folder
    from transformer.config import UsageError

    if config["resume"]:
        raise UsageError("leave out resume=: the same command goes on where it was stopped")
    check_init_from(config["init_from"])
    check_output_folder(config["output"])
    return config, back_translation(config, sys.argv[1:])


def back_translate(job: Job) -> None:
    from transformer.cli.back_translation import check_texts
    from transformer.cli.pipeline import run_stages
    from transformer.cli.settings import run_settings
    from transformer.data.printable import print_safely
    from transformer.evaluation import METRICS
    from transformer.training.config import read_run_settings

    config, stages = job
    data = read_run_settings(run_settings(config)).data
    data.fetch()
    if not config["folds"]:
        check_texts(data, config["input"])
    folder = Path(config["output"])
    run_stages(stages, folder)
    tests = [name for name, (_, split) in data.parts.items() if split == "test"]
    for run in ("forward", "final"):
        results = folder / run / "test.json"  # with the metrics of this run; a run with test=false has none
        scores = json.loads(results.read_bytes()) if results.exists() else {}
        for name in filter(scores.get, tests):
            found = {METRICS[key].label: value for key, value in scores[name].items() if key in METRICS}
            print_safely(f"{run}, {name}: {'   '.join(f'{label} {value:.1f}' for label, value in found.items())}")


if __name__ == "__main__":
    launch(read, back_translate, config_name="back_translate")
