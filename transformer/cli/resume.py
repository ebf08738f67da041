"""The settings of a resumed run: what its checkpoint says, as plain data, with what is typed now on top.

Nothing that was saved goes back to Hydra: no overrides, no configuration files, no interpolations, since the checkpoint
may be a stranger's.
"""

from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from transformer.cli.compose import as_dict, chosen, compose_again, typed_overrides
from transformer.cli.runs import output_folder
from transformer.cli.settings import run_settings
from transformer.config import UsageError
from transformer.data.corpus import SPLITS
from transformer.files import MODELS, is_cache

Leaves = dict[tuple[str, ...], Any]
REMOVED = object()
# Stands for any other value of a setting that is typed, to see what follows from it. From the file of data=tatoeba
# follows a language, which its name begins with.
OTHER_VALUE = "zxx.another value"
# Loggers that write into the run's folder. Another sends the numbers away: only what is typed now may choose it.
OWN_LOGGERS = ("csv", "tensorboard")


def leaves(settings: Any, above: tuple[str, ...] = ()) -> Leaves:
    """Flatten nested settings; keys are paths, as names of files have dots."""
    if not isinstance(settings, dict) or not settings:
        return {above: settings}
    return {path: leaf for key, value in settings.items() for path, leaf in leaves(value, (*above, key)).items()}


def other_choices(loader: ConfigLoader, group: str) -> list[str]:
    """List what may be chosen instead, as overrides; sets of settings (experiment, ablation) are left out instead."""
    if group in ("experiment", "ablation"):
        return [f"~{group}"]
    now = chosen(group)
    options = loader.get_group_options(group.partition("@")[0])
    return [f"{group}={option}" for option in options if option != now]


def another(typed: Any) -> Any:
    """Replace each value in what was typed: {workers: 1} sets that one of its section."""
    return {key: another(value) for key, value in typed.items()} if isinstance(typed, dict) else OTHER_VALUE


def put(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *above, name = path
    for key in above:
        if not isinstance(settings.get(key), dict):
            settings[key] = {}
        settings = settings[key]
    settings.pop(name, None) if value is REMOVED else settings.update({name: value})


def put_different(settings: dict[str, Any], current: Leaves, other: Leaves) -> None:
    for path, value in current.items():
        if path not in other or other[path] != value:
            put(settings, path, value)


def apply_typed(settings: dict[str, Any], now: dict[str, Any]) -> None:
    """Change the settings that follow from the command line, also where it repeats a default.

    They are those of `now` that would be different had another value been typed, or another choice of a group.
    """
    parser = OverridesParser.create()
    typed = {key: parser.parse_override(line).value() for key, line in typed_overrides().items()}
    loader = GlobalHydra.instance().config_loader()
    # data={workers: 1} chooses no corpus.
    groups = [
        key for key in typed if not isinstance(typed[key], dict) and loader.get_group_options(key.partition("@")[0])
    ]
    current = leaves(now)
    for choice in [choice for group in groups for choice in other_choices(loader, group)]:
        # Without what is typed in the same section: another choice may not know it, as data.file= of data=tatoeba.
        section = choice.partition("=")[0].rpartition("@")[2]
        other = leaves(run_settings(as_dict(compose_again(choice, without=[section]), complete=False)))
        for path in other.keys() - current.keys():  # what another choice has, and this one has not
            put(settings, path, REMOVED)
        put_different(settings, current, other)
    if single := [key for key in typed if key not in (*groups, "resume")]:
        config = compose_again()
        for key in single:
            OmegaConf.update(config, key, another(typed[key]), force_add=True)
        put_different(settings, current, leaves(run_settings(as_dict(config, complete=False))))


def is_ours(data: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether our YAML, or what is typed now, fetches the same files from the same address to the same place."""
    if data["url"] is None:
        return True
    ours = [now]
    if data["name"] in GlobalHydra.instance().config_loader().get_group_options("data"):
        ours.append(run_settings(as_dict(compose_again(f"data={data['name']}"), complete=False))["data"])
    return any(all(data[key] == corpus[key] for key in ("url", "sha256", "directory")) for corpus in ours)


def distrust(data: dict[str, Any], now: dict[str, Any], run: Path) -> None:
    """Let no checkpoint choose what is fetched, or where anything is written: only our YAML and what was typed may.

    A cache that the run has used goes on being used, unless it lies in the run's folder and came with it.
    """
    if not is_ours(data, now):
        data |= {"url": None, "sha256": {}}
    cache = Path(data["cache"])
    brought = not cache.is_absolute() or cache.resolve().is_relative_to(run.resolve())
    if brought or not is_cache(cache):
        data["cache"] = now["cache"]


def resume_run(config: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """Return the settings of the run that `resume=` names, and the checkpoint to go on from.

    Raises ValueError for a checkpoint that no run can go on from.
    """
    from transformer.evaluation.run_files import check_entries
    from transformer.training.checks import check_trainer_values
    from transformer.training.config import read_run_settings
    from transformer.training.resume import read_run

    if removed := [line for line in typed_overrides().values() if line.startswith("~")]:
        raise UsageError(f"{removed[0]}: resume= takes no ~KEY: give KEY=VALUE")
    check_entries(output_folder())
    resume = Path(config["resume"]).absolute()
    checkpoint = resume if resume.is_file() else output_folder() / MODELS[-1]
    now = run_settings(config)
    if "data" in typed_overrides() and not any(now["data"][key] for key in ("pairs", *SPLITS)):
        raise UsageError(
            f"data={chosen('data')} names no files: give them too, or leave it out, as the run knows its corpus"
        )
    try:
        run = read_run(checkpoint)
        assert run is not None
        saved = run["settings"]
        if missing := [key for key in now if key not in saved]:  # in a run of an earlier version
            raise ValueError(f"the setting {missing[0]} is missing")
        settings = {key: saved[key] for key in now}
        read_run_settings(settings)
        if strange := [key for key in ("model", "trainer") if not isinstance(settings[key], dict)]:
            raise ValueError(f"{strange[0]} must be a group of settings")
        # What is typed now may take the place of the rest: of a GPU that is not here, for example.
        check_trainer_values(settings["trainer"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{checkpoint}: its settings cannot be used: {error}") from error
    apply_typed(settings, now)
    distrust(settings["data"], now["data"], output_folder())
    settings["loggers"] = [name for name in settings["loggers"] if name in (*OWN_LOGGERS, *now["loggers"])]
    return settings, checkpoint
