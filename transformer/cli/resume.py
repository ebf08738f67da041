"""The settings of a resumed run: those of its checkpoint, with what is typed now on top.

The checkpoint may be a stranger's: its settings are read strictly, as plain data, and go nowhere near Hydra.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from transformer.cli.compose import typed_overrides
from transformer.cli.runs import output_folder
from transformer.cli.settings import NOT_SETTINGS, run_settings
from transformer.config import UsageError
from transformer.files import LAST_CHECKPOINT, is_cache


def read_saved(checkpoint: Path, names: list[str]) -> dict[str, Any]:
    """The settings of these `names` that a checkpoint holds. Raises ValueError for any that no run can have."""
    from transformer.model.config import read_model
    from transformer.training.checkpoints import read_run
    from transformer.training.config import read_run_settings

    saved = read_run(checkpoint)["settings"]
    try:
        settings = {name: saved[name] for name in names}
        if not isinstance(settings["model"], dict):
            raise ValueError("model must be a group of settings")
        read_run_settings(settings)
        read_model(settings["model"])
    except KeyError as missing:
        raise ValueError(f"{checkpoint}: its settings cannot be used: {missing.args[0]} is missing") from missing
    except (TypeError, ValueError) as error:
        raise ValueError(f"{checkpoint}: its settings cannot be used: {error}") from error
    return settings


def distrust(settings: dict[str, Any], default_cache: str, run: Path) -> None:
    """Let no checkpoint choose what is fetched, where numbers are sent, or a folder to write into; what is typed may.

    A cache that this program has marked goes on being used, unless it came with the run.
    """
    data = settings["data"]
    if data["url"] is not None:
        data |= {"url": None, "sha256": {}}
    cache = Path(data["cache"])
    brought = not cache.is_absolute() or cache.resolve().is_relative_to(run.resolve())
    if brought or not is_cache(cache):
        data["cache"] = default_cache
    settings["loggers"] = [name for name in settings["loggers"] if name != "wandb"]


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

    groups, typed = GlobalHydra.instance().config_loader(), typed_overrides()
    for key, line in typed.items():
        if line.startswith("~") or key.startswith("model.") or groups.get_group_options(key.partition("@")[0]):
            raise UsageError(f"{line}: a resumed run keeps its model and choices: give single settings, search.beam=5")
    check_entries(output_folder())
    resume = Path(config["resume"]).absolute()
    checkpoint = resume if resume.is_file() else output_folder() / LAST_CHECKPOINT
    now = run_settings(config)
    settings = read_saved(checkpoint, [*now])
    distrust(settings, now["data"]["cache"], output_folder())
    parser = OverridesParser.create()
    for key, line in typed.items():
        above = tuple(("data.cache" if key == "cache" else key).split("."))
        for path in single_settings(above, parser.parse_override(line).value()):
            if path[0] not in NOT_SETTINGS:
                put(settings, path, now)
    return settings, checkpoint
