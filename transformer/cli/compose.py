"""Whole configurations from the YAML presets, as plain data."""

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf

from transformer import __version__
from transformer.cli import CONFIGS, PROJECT, Read
from transformer.cli.arguments import LITERAL, split_override
from transformer.cli.errors import describe
from transformer.config import UsageError, flatten, read_value, shown
from transformer.data import tatoeba
from transformer.data.directions import first_direction

# What the YAML files call as ${NAME:…}.
OmegaConf.register_new_resolver("version", lambda: __version__, replace=True)
OmegaConf.register_new_resolver("first_direction", first_direction, replace=True)
for function in (tatoeba.file_language, tatoeba.source_language, tatoeba.columns):
    OmegaConf.register_new_resolver(f"tatoeba_{function.__name__}", function, replace=True)
OmegaConf.register_new_resolver("project", lambda folder="": str(PROJECT / folder), replace=True)


def compose_all(name: str, overrides: Sequence[str], configs: Path = CONFIGS) -> DictConfig:
    """The configuration of a script with overrides in Hydra's grammar, and Hydra's own settings with it."""
    with hydra.initialize_config_dir(str(configs), version_base="1.3", job_name=name):
        return hydra.compose(name, list(overrides), return_hydra_config=True)


def as_dict(config: DictConfig, complete: bool = True) -> dict[str, Any]:
    """The script's own settings as plain data, interpolations resolved; `complete`: a missing one is an error."""
    settings = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    return OmegaConf.to_container(settings, resolve=True, throw_on_missing=complete)  # type: ignore[return-value]


def compose(name: str, *overrides: str) -> dict[str, Any]:
    """The settings of scripts/NAME.py with overrides in Hydra's grammar, interpolations resolved, as plain data."""
    return as_dict(compose_all(name, overrides), complete=False)


def by_key(overrides: Iterable[str]) -> dict[str, str]:
    """Overrides by their keys."""
    return {split_override(override)[1]: override for override in overrides}


def typed_overrides() -> dict[str, str]:
    """The overrides that the running script was given, by key; none where a configuration is only composed."""
    return by_key(HydraConfig.get().overrides.task) if HydraConfig.initialized() else {}


def compose_again(*instead: str, without: Collection[str] = ()) -> DictConfig:
    """Composes the configuration of the running script again. Overrides of `instead` replace typed ones of the same
    key; typed ones with a key or in a section of `without` are left out."""
    hydra_config = HydraConfig.get()
    folders = [line for line in hydra_config.overrides.hydra if split_override(line)[1] == "hydra.searchpath"]
    kept = {key: line for key, line in typed_overrides().items() if not {key, key.partition(".")[0]} & {*without}}
    return hydra.compose(hydra_config.job.config_name, [*folders, *(kept | by_key(instead)).values()])


def check_words(config: DictConfig) -> None:
    """Refuse a word that was typed where the presets have a number, a boolean or a list: `seed=x`.

    `read` refuses it too, but knows the types of settings only after it has imported torch, which takes seconds.
    """
    keys = [key for key in typed_overrides() if not key.startswith(LITERAL)]
    if words := {key: value for key in keys if isinstance(value := OmegaConf.select(config, key), str)}:
        presets = compose_again(without=words)
        for key, value in words.items():
            preset = OmegaConf.select(presets, key)
            if isinstance(preset, bool | int | float | ListConfig):
                read_value(list[Any] if isinstance(preset, ListConfig) else type(preset), value, key)


def check_groups(config: DictConfig) -> None:
    """Refuse a preset with `data: multi30k`: `data` stands for many settings, and the defaults list chooses them."""
    choices = HydraConfig.get().runtime.choices if HydraConfig.initialized() else {}
    for group in choices:
        package = group.partition("@")[2] or group
        if package in config and not isinstance(value := config[package], DictConfig):
            remedy = f'write KEY: VALUE below it, indented, or in its defaults list "- override /{group}: CHOICE"'
            raise UsageError(f"a preset has {package}: {shown(value)} where the settings of {package} belong; {remedy}")


def read_settings(read: Read, config: DictConfig) -> Any:
    """What `read` makes of a configuration; ValueError names a setting as it can be typed.

    Some settings take their values from another, `${model.heads}`, and only that one may have been typed.
    """
    check_groups(config)
    settings = as_dict(config)
    try:
        if "torch" not in sys.modules:
            check_words(config)
        return read(settings)
    except ValueError as error:
        values = dict(flatten(OmegaConf.to_container(config)))  # type: ignore[arg-type]
        sources = {key: value[2:-1] for key, value in values.items() if re.fullmatch(r"\$\{[\w.]+\}", str(value))}
        # What translates has a section of its own in typed settings, not on the command line.
        typed = re.sub(r"[\w.]+", lambda key: sources.get(key[0], key[0].removeprefix("inference.")), describe(error))
        # One that was typed may stand for several.
        raise UsageError(re.sub(r"(?<![\w.])([\w.]+=[^,]{1,99})(, \1)+", r"\1", typed)) from error


def chosen(group: str) -> str | None:
    """The choice that the running script makes in a group."""
    return HydraConfig.get().runtime.choices.get(group)  # type: ignore[no-any-return]
