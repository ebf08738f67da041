"""Finds the model that `--checkpoint` means, and announces it."""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transformer.config import UsageError
from transformer.files import EXPORT_MANIFEST, HUGGINGFACE_TOKENIZER, expanded, read_file
from transformer.inference.settings import ChoiceSettings
from transformer.printing import resume_command, say, shell_path
from transformer.run import RUNS, TRANSLATOR, Run

MAX_DESCRIPTION_BYTES = 1 << 22  # of a description, which takes some thousand


def newest_finished_run() -> Path:
    """Find the run that finished last: only then has it a model of its own beside the checkpoints."""
    if finished := Run.all(TRANSLATOR):
        return finished[-1].folder
    if unfinished := Run.all():
        run = shell_path(unfinished[-1].folder)
        raise UsageError(f"no run in {RUNS} has finished: --checkpoint {run} takes what that one has so far")
    raise FileNotFoundError(f"there is no run in {RUNS}: train one, or give --checkpoint")


def find_checkpoint(value: str | None, exports: bool = False, key: str = "--checkpoint") -> Path:
    """Find the model that a flag means: a file, or the best in a folder, or, without one, that of the newest finished
    run.

    With `exports` it may be the folder of an export, which is returned as such.
    """
    path = newest_finished_run() if value is None else expanded(value)
    if (path / HUGGINGFACE_TOKENIZER).is_file() and not Run(path).models:
        return path
    if (path / EXPORT_MANIFEST).is_file():
        if not exports:
            raise UsageError(f"{key} {value} is an export, which this command cannot use: name what it was made of")
        return path
    if not path.exists():
        raise FileNotFoundError(f"{key} {value}: no such file or run folder")
    try:
        return path if path.is_file() else Run(path).model
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{key} {value}: {error}") from error


def find_checkpoints(values: Sequence[str], exports: bool = True) -> list[Path]:
    """Find all models that flags mean, each as `find_checkpoint` does; without any, that of the newest finished run."""
    asked: Sequence[str | None] = values or [None]
    found = [find_checkpoint(value, exports) for value in asked]
    if twice := [one for number, one in enumerate(found) if any(map(one.samefile, found[:number]))]:
        raise UsageError(f"--checkpoint names {twice[0]} twice: leave one of them out")
    return found


def with_reverse(choice: ChoiceSettings) -> ChoiceSettings:
    """The choice, with the model that `--reverse` means, if it names one."""
    if choice.reverse is None:
        return choice
    return replace(choice, reverse=str(find_checkpoint(choice.reverse, key="--reverse")))


def score_on(split: str, run: Run) -> list[str]:
    """A run's score on the test set, or on that of another direction, as `test bleu 97.3`, if it has left one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, StopIteration, AttributeError, OverflowError):
        name, score = next(iter(run.scores(split).items()))
        return [f"{split} {name} {float(score):.1f}"]
    return []


def _facts(run: Run) -> list[str]:
    """The languages of a run and its score on the test set, as far as its files tell: who loads them checks them."""
    facts: list[str] = []
    if not run.translator.is_file():  # reading a pipe would wait for ever
        return facts
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        with run.translator.open("rb") as file:
            header = json.loads(file.read(min(MAX_DESCRIPTION_BYTES, int.from_bytes(file.read(8), "little"))))
        description = json.loads(header["__metadata__"]["translator"])
        others = len(description.get("directions", [])) - 1
        more = f" and {others} other direction{'s' if others > 1 else ''}" if others > 0 else ""
        facts.append(f"{description['source_language']} → {description['target_language']}{more}")
        facts.extend(score_on("test", run))
    return facts


def announce_checkpoint(asked: str | None, checkpoint: Path) -> None:
    """Say which run was taken where none was asked for: its languages, its score, and how many newer runs were passed
    over; and that a run which was named has not finished."""
    run = Run.open(checkpoint)
    if asked is None:
        finished = checkpoint.stat().st_mtime_ns
        count = sum(other.last.stat().st_mtime_ns > finished and other != run for other in Run.all())
        passed_over = [f"{count} newer not finished"] if count else []
        say(f"--checkpoint {shell_path(run.folder)} ({', '.join(['newest finished run', *_facts(run), *passed_over])})")
    elif checkpoint.parent.name == "checkpoints" and Path(asked).is_dir():
        name, command = shell_path(run.folder), resume_command(run.folder)
        say(f"{name} has not finished its training, this is its {checkpoint.name}: {command} continues it")


def model_name(checkpoint: Path) -> str:
    """Name a model as its run's folder and the file in it."""
    # Not Path.resolve: a run is called as the link that was typed.
    run, model = (Path(os.path.abspath(path)) for path in (Run.open(checkpoint).folder, checkpoint))  # noqa: PTH100
    return (run.name / model.relative_to(run)).as_posix()


def read_card(checkpoint: Path) -> str:
    """Read the model card of a checkpoint's run; "" where there is none."""
    try:
        return read_file(Run.open(checkpoint).card).decode()
    except (OSError, ValueError):
        return ""
