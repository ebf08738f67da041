"""Finds the mistake behind an error of Hydra or of the settings, to name its key and the remedy.

Only for a command that was refused: it composes the configuration without what was typed, to compare.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from transformer.cli.arguments import is_multirun, is_override, split
from transformer.cli.errors import UsageError

OPTIONAL = ("model.decoder.cross_attention",)  # sections that may be null


def explain(
    error: Exception, typed: Sequence[str], prepared: Sequence[str], config_name: str, configs: Path
) -> Exception:
    """Return an error that says more than `error`, if a mistake is found among the arguments."""
    if isinstance(error, UsageError) and not re.search("unrecognized arguments: [^-]", str(error)):
        return error
    if any(option.startswith(("--config", "-cd", "-cp", "-cn")) for option in typed):
        return error  # other configurations than ours
    try:
        find_mistake(typed, prepared, config_name, configs)
    except UsageError as mistake:
        return mistake
    except Exception:  # this one is only about explaining the other
        return error
    return error


def find_mistake(typed: Sequence[str], prepared: Sequence[str], config_name: str, configs: Path) -> None:
    """Raise UsageError for the first mistake, if there is one."""
    options = ("job", "hydra", "all")  # values of --cfg and --info
    for argument in typed:
        if not is_override(argument) and not argument.startswith("-") and argument not in options:
            raise UsageError(
                f"{argument or '(empty)'}: no '=' in it: write KEY=VALUE, and quotes around a value with spaces, "
                'text="two words"'
            )
    with hydra.initialize_config_dir(str(configs), version_base="1.3", job_name=config_name):
        loader = GlobalHydra.instance().config_loader()
        overrides = [parse(line) for line in filter(is_override, prepared)]
        chosen = [override for override in overrides if loader.get_group_options(override.key_or_group)]
        groups = script_groups(configs, config_name)
        for override in chosen:
            if override.key_or_group not in groups and not override.is_hydra_override():
                known = ", ".join(sorted(groups))
                raise UsageError(f"{override.key_or_group}: no choice of this script; its choices are {known}")
            check_choice(override, loader.get_group_options(override.key_or_group))
        base = hydra.compose(config_name, [alternatives(override)[0] for override in chosen])
        settings = dict(sections(OmegaConf.to_container(base)))  # type: ignore[arg-type]
        for override in overrides:
            if override not in chosen and not override.is_delete() and not override.is_hydra_override():
                check_key(override, settings, groups)
            if override.is_sweep_override() and not any(map(is_multirun, typed)):
                raise UsageError(f"{override.input_line}: several values need -m, a list brackets: KEY=[A,B]")


def parse(override: str) -> Override:
    """Read an override by Hydra's grammar, with an error of one line."""
    try:
        return OverridesParser.create().parse_override(override)
    except HydraException as error:
        prefix, key, value = split(override)
        raise UsageError(
            f"{override}: Hydra cannot read this; put a text with special characters into quotes of its own: "
            f"""{prefix}{key}='"{value}"'"""
        ) from error


def alternatives(override: Override) -> list[str]:
    """Write an override once for each value that it sweeps over."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if isinstance(interval := override.value(), IntervalSweep):
        return [f"{override.get_key_element()}={interval.start}"]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def script_groups(configs: Path, config_name: str) -> set[str]:
    """The config groups that a script's defaults list names, those of a configuration that it builds on included."""
    groups: set[str] = set()
    config: Any = OmegaConf.to_container(OmegaConf.load(configs / f"{config_name}.yaml"))
    for entry in config.get("defaults", []):
        if isinstance(entry, dict):
            groups |= {key.partition("@")[0] for key in entry} | {key for key in entry if "@" in key}
        elif entry != "_self_":
            groups |= script_groups(configs, entry)
    return groups


def check_choice(group: Override, options: list[str]) -> None:
    """Refuse an unknown member of a config group by naming the known ones."""
    for alternative in alternatives(group) if not group.is_delete() else []:
        names = re.split(r"\s*,\s*", split(alternative)[2].strip("[]'\" "))
        if not set(names) <= {*options, "null"}:
            raise UsageError(f"{alternative}: {group.key_or_group} is one of {', '.join(options)}")


def sections(settings: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """List every setting and section of a nested configuration with its full name."""
    found = []
    for key, value in settings.items():
        found.append((f"{above}{key}", value))
        if isinstance(value, dict):
            found += sections(value, f"{above}{key}.")
    return found


def check_key(override: Override, settings: dict[str, Any], groups: set[str]) -> None:
    """Refuse a setting that does not exist, or a value in place of a whole section."""
    key = above = override.key_or_group
    while above and above not in settings:
        above = above.rpartition(".")[0]  # ends at the section where the name stops making sense
    if above == key:
        left_out = override.value() is None and key in OPTIONAL
        if isinstance(settings[key], dict) and not isinstance(override.value(), dict) and not left_out:
            inside = ", ".join(name for name in settings if name.rpartition(".")[0] == key)
            raise UsageError(f"{override.input_line}: {key} is a section; set one of {inside}")
        return
    if override.is_add() or override.is_force_add():
        return
    if above and not isinstance(settings[above], dict):
        if isinstance(settings[above], list) or "${" in str(settings[above]):
            return  # only composing it can tell
        raise UsageError(f"{key}: {above} is a value and has no settings below it")
    if not above and key.partition(".")[0] in groups:
        raise UsageError(f"{key}: choose a {key.partition('.')[0]} first; --help shows which there are")
    known = [name for name in settings if name.rpartition(".")[0] == above]
    names = {name.rpartition(".")[2]: name for name in [*known, *([] if above else groups)]}
    near = [names[name] for name in difflib.get_close_matches(key.removeprefix(f"{above}."), names)]
    near += [name for name in settings if name.rpartition(".")[2] == key.rpartition(".")[2] != name]
    remedy = f"did you mean {' or '.join(near[:4])}?" if near else f"known are {', '.join(sorted(names.values()))};"
    raise UsageError(f"{key}: no such setting; {remedy} --cfg job shows all")
