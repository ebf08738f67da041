"""The settings of a resumed run: those of its checkpoint, with what is typed now on top."""

from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra

from transformer.cli.compose import typed_overrides
from transformer.cli.runs import output_folder
from transformer.cli.settings import NOT_SETTINGS, run_settings
from transformer.config import UsageError
from transformer.files import LAST_CHECKPOINT


def put(settings: dict[str, Any], key: str, now: dict[str, Any]) -> None:
    """Give `settings` the value that `key` (a.b.c) has in the settings `now`."""
    *above, name = key.split(".")
    for part in above:
        settings, now = settings.setdefault(part, {}), now[part]
    settings[name] = now[name]


def resume_run(config: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """Return the settings of the run that `resume=` names, and the checkpoint to go on from.

    Raises UsageError for a whole group, whose settings would take the place of the run's own, and ValueError for a
    checkpoint that no run can go on from.
    """
    from transformer.evaluation.run_files import check_entries
    from transformer.training.checkpoints import read_run

    groups = GlobalHydra.instance().config_loader()
    for key, line in typed_overrides().items():
        if line.startswith("~") or groups.get_group_options(key.partition("@")[0]):
            raise UsageError(
                f"{line}: a resumed run keeps its choices: give single settings, as data.batch_tokens=1024"
            )
    check_entries(output_folder())
    resume = Path(config["resume"]).absolute()
    checkpoint = resume if resume.is_file() else output_folder() / LAST_CHECKPOINT
    settings = dict(read_run(checkpoint)["settings"])
    now = run_settings(config)
    for key in typed_overrides():
        if key == "cache":
            key = "data.cache"
        if key.partition(".")[0] not in NOT_SETTINGS:
            put(settings, key, now)
    return {key: settings[key] for key in now}, checkpoint
