"""Finds every mistake on a command line before any work starts, by composing all that it asks for."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from transformer.cli.errors import UsageError

OPTIONAL = ("model.decoder.cross_attention",)  # sections that may be null
OURS = {  # arguments of Lightning's Trainer that a user must not set
    "callbacks": "built by train.py: see the settings of training",
    "logger": "built by train.py: choose with loggers=[csv,tensorboard]",
    "plugins": "built by train.py",
    "default_root_dir": "the run's folder: choose it with hydra.run.dir=PATH",
    "overfit_batches": "not possible with batches of our own: use trainer.limit_train_batches",
    "use_distributed_sampler": "always false: our own batch sampler deals the batches out to the processes",
}

TRAINER_PAGE = "https://lightning.ai/docs/pytorch/stable/common/trainer.html"


def split(override: str) -> tuple[str, str, str]:
    """Take `++key=value` apart into prefix, key and value without reading the value."""
    prefix, key, value = re.fullmatch(r"([+~]*)([^=]*)=?(.*)", override, re.DOTALL).groups()  # type: ignore[union-attr]
    return prefix, key, value


@functools.cache
def trainer_arguments() -> tuple[str, ...]:
    """Name the arguments of Lightning's Trainer; called late, as the import takes seconds."""
    from lightning import Trainer

    return tuple(inspect.signature(Trainer).parameters)


def alternatives(override: Override) -> list[str]:
    """Write an override once for each value that it sweeps over."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if isinstance(interval := override.value(), IntervalSweep):
        return [f"{override.get_key_element()}={interval.start}"]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def parse(override: str, loader: ConfigLoader) -> Override:
    """Read an override by Hydra's grammar, with an error of one line."""
    if "=" not in override and not override.startswith("~"):
        raise UsageError(
            f"{override or '(empty)'}: no '=' in it: write KEY=VALUE, and quotes around a value with spaces, "
            'text="two words"'
        )
    try:
        return OverridesParser.create(config_loader=loader).parse_overrides([override])[0]
    except HydraException as error:
        prefix, key, value = split(override)
        raise UsageError(
            f"{override}: Hydra cannot read this; put a text with special characters into quotes of its own: "
            f"""{prefix}{key}='"{value}"'"""
        ) from error


def check_choice(group: Override, options: list[str]) -> None:
    """Refuse an unknown member of a config group by naming the known ones."""
    for alternative in alternatives(group) if not group.is_delete() else []:
        value = split(alternative)[2].strip("[]'\" ")
        unknown = [name for name in re.split(r"\s*,\s*", value) if name not in options and "/" not in name]
        if unknown:
            raise UsageError(f"{alternative}: {group.key_or_group} is one of {', '.join(options)}")


def flat(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Give every setting and section of a nested configuration with its full name."""
    for key, value in settings.items():
        yield f"{above}{key}", value
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")


def check_key(override: Override, settings: dict[str, Any], groups: list[str]) -> None:
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
    if above and not isinstance(settings[above], dict):
        if isinstance(settings[above], list) or "${" in str(settings[above]):
            return  # only composing it can tell
        raise UsageError(f"{key}: {above} is a value and has no settings below it")
    known = [name for name in settings if name.rpartition(".")[0] == above]
    if above == "trainer":
        known += [f"trainer.{name}" for name in trainer_arguments() if name not in OURS]
        if ".".join(key.split(".")[:2]) in known:
            return
    elif override.is_add() or override.is_force_add():
        return
    if not above and key.partition(".")[0] in groups:
        raise UsageError(f"{key}: choose a {key.partition('.')[0]} first; --help shows which there are")
    names = {name.rpartition(".")[2]: name for name in [*known, *([] if above else groups)]}
    near = [names[name] for name in difflib.get_close_matches(key.removeprefix(f"{above}."), names)]
    near += [name for name in settings if name.rpartition(".")[2] == key.rpartition(".")[2] != name]
    remedy = f"did you mean {' or '.join(near[:4])}?" if near else f"known are {', '.join(sorted(names.values()))};"
    everything = TRAINER_PAGE if above == "trainer" else "--cfg job"
    raise UsageError(f"{key}: no such setting; {remedy} {everything} shows all")


def plain(config: DictConfig) -> tuple[dict[str, Any], str, str]:
    """Give the settings as the job will see them, resolved as there, the sweep's folder and the run's."""
    HydraConfig.instance().set_config(config)  # lets ${hydra:...} resolve, as Hydra does for a job
    try:
        with read_write(config), open_dict(config):
            with read_write(config.hydra), open_dict(config.hydra):
                config.hydra.runtime.output_dir = str(Path(config.hydra.run.dir).absolute())
            HydraConfig.instance().set_config(config)
            sweep, run = str(config.hydra.sweep.dir), str(config.hydra.run.dir)
            del config["hydra"]
        return OmegaConf.to_container(config, resolve=True, throw_on_missing=True), sweep, run  # type: ignore[return-value]
    finally:
        HydraConfig.instance().cfg = None


def check_processes(trainer: dict[str, Any], multirun: bool) -> None:
    """Refuse ways of training on several devices that cannot work here."""
    strategy, devices = str(trainer.get("strategy", "auto")), str(trainer.get("devices", 1))
    if re.search("fsdp|deepspeed|model_parallel", strategy):
        # Clipping, digests and checkpoints of ours need whole weights.
        raise UsageError(f"trainer.strategy={strategy} would cut the weights into parts: use trainer=ddp")
    if re.search("spawn|fork|notebook", strategy):
        # They would take what a run has learned and translated with them.
        raise UsageError(f"trainer.strategy={strategy} ends its processes with the training: use trainer=ddp")
    if multirun and (strategy.startswith("ddp") or not re.fullmatch(r"1|auto|\[\d+\]", devices)):
        # Lightning starts its children with the arguments of the whole sweep (PL#11300).
        raise UsageError(
            f"-m cannot train with trainer.strategy={strategy} trainer.devices={devices}: "
            "use trainer=cpu or trainer=gpu with trainer.devices=1"
        )


def check(
    overrides: Sequence[str],
    config_name: str,
    configs: Path,
    multirun: bool,
    check_values: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[str | None, str]:
    """Find every mistake before any work starts, by composing all the parts; return a sweep's folder and a run's."""
    with hydra.initialize_config_dir(str(configs), version_base="1.3", job_name=config_name):
        loader = GlobalHydra.instance().config_loader()
        parsed = [parse(override, loader) for override in overrides]
        groups = [override for override in parsed if loader.get_group_options(override.key_or_group)]
        for group in groups:
            check_choice(group, loader.get_group_options(group.key_or_group))
        base = hydra.compose(config_name, [alternatives(group)[0] for group in groups], return_hydra_config=True)
        multirun = multirun or base.hydra.mode == RunMode.MULTIRUN or "hydra.mode=MULTIRUN" in overrides
        settings = {name: value for name, value in flat(OmegaConf.to_container(base)) if name[:5] != "hydra"}  # type: ignore[arg-type]
        names = [name for name in loader.list_groups("") if name != "hydra"]
        for override in parsed:
            if override not in groups and not override.is_delete() and not override.is_hydra_override():
                check_key(override, settings, names)
            if override.is_sweep_override() and not multirun:
                raise UsageError(f"{override.input_line}: several values need -m, a list brackets: KEY=[A,B]")
        if multirun:
            swept = OmegaConf.select(base, "hydra.sweeper.params") or {}
            given = {override.key_or_group for override in parsed}
            parsed += [parse(f"{key}={value}", loader) for key, value in swept.items() if key not in given]
        # Each value of a sweep is tried once, not each combination: seconds, not minutes.
        first = [alternatives(override)[0] for override in parsed]
        trials = [first]
        for position, override in enumerate(parsed):
            others = alternatives(override)[1:]
            trials += [[*first[:position], other, *first[position + 1 :]] for other in others]
        for trial in trials:
            resolved, sweep, run = plain(hydra.compose(config_name, trial, return_hydra_config=True))
            check_processes(resolved.get("trainer") or {}, multirun)
            if check_values:
                check_values(resolved)
        return (sweep if multirun else None), run
