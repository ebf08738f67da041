"""Whole configurations from the YAML presets, as the scripts get them."""

from pathlib import Path
from typing import Any

import hydra
from omegaconf import OmegaConf

PROJECT = Path(__file__).resolve().parents[2]
CONFIGS = PROJECT / "configs"


def auto_precision(accelerator: str) -> str:
    """bf16 where a GPU has it: half the memory, and no loss scale to underflow."""
    import torch  # late: it takes seconds, and most mistakes on a command line are found without it

    gpu = accelerator != "cpu" and torch.cuda.is_available()
    return "bf16-mixed" if gpu and torch.cuda.is_bf16_supported() else "32-true"


# What the YAML files call as ${NAME:…}.
OmegaConf.register_new_resolver("auto_precision", auto_precision, replace=True)
OmegaConf.register_new_resolver("project", lambda folder="": str(PROJECT / folder), replace=True)
OmegaConf.register_new_resolver("suffix", lambda name: f"_{name}" if name else "", replace=True)


def compose(name: str, *overrides: str) -> dict[str, Any]:
    """The settings of scripts/NAME.py with overrides in Hydra's grammar, interpolations resolved, as plain data."""
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = hydra.compose(name, list(overrides))
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
