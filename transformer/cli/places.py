"""Refuses a place for results that cannot be one, before the work that leads to them."""

import os
from collections.abc import Sequence
from pathlib import Path

from transformer.config import UsageError
from transformer.files import is_written_through
from transformer.run import MODELS, Run


def check_can_be_written(path: Path, key: str) -> None:
    """Refuse a place that cannot come into being, as a folder above it is a file or cannot be written."""
    is_stream = is_written_through(path)
    whole = path.absolute() if is_stream else Path(os.path.realpath(path))  # a link is followed
    there = next(place for place in (whole, *whole.parents) if place.exists())
    if there != whole and not there.is_dir():
        raise UsageError(f"{key} {path}: {there} is a file, not a folder")
    # A new file takes the place of an old one.
    changed = [there, there.parent] if there.is_file() and not is_stream else [there]
    if not all(os.access(place, os.W_OK) for place in changed):
        raise UsageError(f"{key} {path} cannot be written: name another place")


def check_output_folder(output: str | None) -> None:
    """Refuse a place for results that is no folder, before the work that leads to them."""
    if output is None:
        return
    path = Path(output)
    if path.exists() and not path.is_dir():
        raise UsageError(f"--output {output} is a file: name a folder")
    check_can_be_written(path, "--output")


def check_output_file(output: str | None, suffixes: Sequence[str] = (), key: str = "--output") -> None:
    """Refuse a place for results that is no file, has none of `suffixes`, or has the name of a model."""
    if output is None:
        return
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"{key} {output} is a folder: name a file in it")
    suffix = path.suffix.lower()
    if suffixes and suffix not in suffixes:
        raise UsageError(f"{key} {output} must end in {' or '.join(suffixes)}")
    if not suffixes and suffix in (".safetensors", ".ckpt"):
        raise UsageError(f"{key} {output} has the name of a model: name another file")
    written = Path(os.path.realpath(path))  # a link is followed
    if any(Run.open(file).models and any(map(file.match, MODELS)) for file in (path, written)):
        raise UsageError(f"{key} {output} is a run's own model, which must stay as it is: name another")
    check_can_be_written(path, key)
