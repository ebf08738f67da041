"""Finds the model for `--checkpoint`, and announces it."""

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

MAX_DESCRIPTION_BYTES = 1 << 22  # the largest description; usually it has some thousand bytes


def newest_finished_run() -> Path:
    """Finds the run that finished last. Only finished runs have a model besides their checkpoints."""
    if finished := Run.all(TRANSLATOR):
        return finished[-1].folder
    if unfinished := Run.all():
        run = shell_path(unfinished[-1].folder)
        raise UsageError(f"no run in {RUNS} has finished: --checkpoint {run} takes the model that this run has so far")
    raise FileNotFoundError(f"there is no run in {RUNS}: train one, or give --checkpoint")


def find_checkpoint(value: str | None, exports: bool = False, key: str = "--checkpoint") -> Path:
    """Finds the model for a flag: a file, or the best model in a folder, or, without a value, that of the newest
    finished run.

    With `exports` it may also be the folder of an export; the folder is returned.
    """
    path = newest_finished_run() if value is None else expanded(value)
    if (path / HUGGINGFACE_TOKENIZER).is_file() and not Run(path).models:
        return path
    if (path / EXPORT_MANIFEST).is_file():
        if not exports:
            raise UsageError(f"{key} {value} is an export, which this command cannot use: give the run it comes from")
        return path
    if not path.exists():
        raise FileNotFoundError(f"{key} {value}: no such file or run folder")
    try:
        return path if path.is_file() else Run(path).model
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{key} {value}: {error}") from error


def find_checkpoints(values: Sequence[str], exports: bool = True) -> list[Path]:
    """Finds the models for several flags (see `find_checkpoint`); without a flag, that of the newest finished run."""
    asked: Sequence[str | None] = values or [None]
    found = [find_checkpoint(value, exports) for value in asked]
    if twice := [one for number, one in enumerate(found) if any(map(one.samefile, found[:number]))]:
        raise UsageError(f"--checkpoint has {twice[0]} twice: leave one of them out")
    return found


def with_reverse(choice: ChoiceSettings) -> ChoiceSettings:
    """The choice, with the model for `--reverse` if it is given."""
    if choice.reverse is None:
        return choice
    return replace(choice, reverse=str(find_checkpoint(choice.reverse, key="--reverse")))


def score_on(split: str, run: Run) -> list[str]:
    """A run's score on the test set, or on that of another direction, in the form `test bleu 97.3`, if it has one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, StopIteration, AttributeError, OverflowError):
        name, score = next(iter(run.scores(split).items()))
        return [f"{split} {name} {float(score):.1f}"]
    return []


def _facts(run: Run) -> list[str]:
    """The languages of a run and its score on the test set, if its files have them; they are checked later."""
    facts: list[str] = []
    if not run.translator.is_file():  # reading a pipe would wait forever
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
    """If no checkpoint was given: says which run is used, its languages, its score, and how many newer runs are not
    finished. If a run was given that is not finished, says so."""
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
    """The name of a model: its run's folder and the file in it."""
    # Not Path.resolve, because the name of a typed link is kept.
    run, model = (Path(os.path.abspath(path)) for path in (Run.open(checkpoint).folder, checkpoint))  # noqa: PTH100
    return (run.name / model.relative_to(run)).as_posix()


def read_card(checkpoint: Path) -> str:
    """Reads the model card of a checkpoint's run; "" if there is none."""
    try:
        return read_file(Run.open(checkpoint).card).decode()
    except (OSError, ValueError):
        return ""
