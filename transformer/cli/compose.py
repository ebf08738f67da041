"""Whole configurations from the YAML presets, as plain data."""

from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from transformer.cli.arguments import split

PROJECT = Path(__file__).resolve().parents[2]
CONFIGS = PROJECT / "configs"


# What the YAML files call as ${NAME:…}.
OmegaConf.register_new_resolver("project", lambda folder="": str(PROJECT / folder), replace=True)


def compose(name: str, *overrides: str) -> dict[str, Any]:
    """The settings of scripts/NAME.py with overrides in Hydra's grammar, interpolations resolved, as plain data."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = hydra.compose(name, list(overrides))
    return as_dict(config, complete=False)


def as_dict(config: DictConfig, complete: bool = True) -> dict[str, Any]:
    """A configuration as plain data, interpolations resolved; what is missing is an error if it has to be complete."""
    return OmegaConf.to_container(config, resolve=True, throw_on_missing=complete)  # type: ignore[return-value]


def compose_again(*instead: str) -> DictConfig:
    """The configuration of the running script once more as it was typed, but for the keys of `instead`."""
    job = HydraConfig.get()
    keys = [split(line)[1] for line in instead]
    typed = [line for line in job.overrides.task if split(line)[1] not in keys]
    return hydra.compose(job.job.config_name, [*typed, *instead])


def chosen(group: str) -> str | None:
    """What the running script was told to take of a group."""
    return HydraConfig.get().runtime.choices.get(group)  # type: ignore[no-any-return]
