"""Checks the places for results before the work begins."""

import os
from collections.abc import Sequence
from pathlib import Path

from transformer.config import UsageError
from transformer.files import is_written_through
from transformer.run import MODELS, Run


def check_can_be_written(path: Path, key: str) -> None:
    """Refuses a place that cannot be written, or that has a file among the folders above it."""
    is_stream = is_written_through(path)
    whole = path.absolute() if is_stream else Path(os.path.realpath(path))  # a link is followed
    there = next(place for place in (whole, *whole.parents) if place.exists())
    if there != whole and not there.is_dir():
        raise UsageError(f"{key} {path}: {there} is a file, not a folder")
    # A new file replaces an old one, so the folder must be writable too.
    changed = [there, there.parent] if there.is_file() and not is_stream else [there]
    if not all(os.access(place, os.W_OK) for place in changed):
        raise UsageError(f"{key} {path} cannot be written: give another place")


def check_output_folder(output: str | None) -> None:
    """Refuses a place for results that is no folder."""
    if output is None:
        return
    path = Path(output)
    if path.exists() and not path.is_dir():
        raise UsageError(f"--output {output} is a file: give a folder")
    check_can_be_written(path, "--output")


def check_output_file(output: str | None, suffixes: Sequence[str] = (), key: str = "--output") -> None:
    """Refuses a place for results that is a folder, has none of the `suffixes`, or has the name of a model."""
    if output is None:
        return
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"{key} {output} is a folder: give a file in it")
    suffix = path.suffix.lower()
    if suffixes and suffix not in suffixes:
        raise UsageError(f"{key} {output} must end in {' or '.join(suffixes)}")
    if not suffixes and suffix in (".safetensors", ".ckpt"):
        raise UsageError(f"{key} {output} has the name of a model: give another file")
    written = Path(os.path.realpath(path))  # a link is followed
    if any(Run.open(file).models and any(map(file.match, MODELS)) for file in (path, written)):
        raise UsageError(f"{key} {output} is a run's own model, which must stay unchanged: give another file")
    check_can_be_written(path, key)
