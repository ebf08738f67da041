"""The settings of a run as plain data: what a checkpoint, config.yaml and training know of the command line."""

from pathlib import Path
from typing import Any

# What steers the command line, or stands for settings elsewhere, and is not the run's.
NOT_SETTINGS = ("name", "runs", "cache", "resume", "debug", "output", "fix")
# One word for all attentions and stacks of a model: its parts hold the values.
NOT_MODEL = ("heads", "layers", "score")


def run_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return a run's settings from the composed configuration; paths are absolute, to be read from anywhere."""
    settings = {key: value for key, value in config.items() if key not in NOT_SETTINGS}
    settings["model"] = {key: value for key, value in config["model"].items() if key not in NOT_MODEL}
    paths = ("directory", "train", "validation", "test", "cache")
    settings["data"] = data = config["data"] | {key: absolute(config["data"][key]) for key in paths}
    data["extra_tests"] = {name: absolute(path) for name, path in data["extra_tests"].items()}
    settings["init_from"] = absolute(config["init_from"])
    return settings


def absolute(path: Any) -> Any:
    return str(Path(path).expanduser().absolute()) if isinstance(path, str) else path
