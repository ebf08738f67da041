"""The settings of a resumed run: those of its checkpoint, with what is typed now on top."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from transformer.cli.compose import typed_overrides
from transformer.cli.runs import output_folder
from transformer.cli.settings import NOT_SETTINGS, run_settings
from transformer.config import UsageError
from transformer.files import LAST_CHECKPOINT


def single_settings(path: tuple[str, ...], typed: Any) -> Iterator[tuple[str, ...]]:
    """The paths of what is typed one by one or together: `a.b=1`, `a={b: 1}`."""
    if not isinstance(typed, dict):
        yield path
        return
    for name, value in typed.items():
        yield from single_settings((*path, str(name)), value)


def put(settings: dict[str, Any], path: tuple[str, ...], now: dict[str, Any]) -> None:
    """Give `settings` the value that `path` has in the settings `now`."""
    *above, name = path
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

    groups, typed = GlobalHydra.instance().config_loader(), typed_overrides()
    for key, line in typed.items():
        if line.startswith("~") or key.startswith("model.") or groups.get_group_options(key.partition("@")[0]):
            raise UsageError(f"{line}: a resumed run keeps its model and choices: give single settings, search.beam=5")
    check_entries(output_folder())
    resume = Path(config["resume"]).absolute()
    checkpoint = resume if resume.is_file() else output_folder() / LAST_CHECKPOINT
    now = run_settings(config)
    settings = read_run(checkpoint)["settings"]
    parser = OverridesParser.create()
    for key, line in typed.items():
        above = tuple(("data.cache" if key == "cache" else key).split("."))
        for path in single_settings(above, parser.parse_override(line).value()):
            if path[0] not in NOT_SETTINGS:
                put(settings, path, now)
    # One that an earlier version of this program did not have is missed where all are read.
    return {name: settings[name] for name in now if name in settings}, checkpoint
