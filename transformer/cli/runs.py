"""The folders of runs: finding the one to resume, and checking a new one."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from transformer.config import UsageError
from transformer.files import CONFIGS, UNWRITABLE, expanded
from transformer.printing import resume_command
from transformer.processes import rank
from transformer.run import RUNS, Run
from transformer.signals import Interrupted

ELSEWHERE = "hydra.run.dir=PATH (with -m hydra.sweep.dir=PATH) chooses another place"


def find_resumable(resume: str) -> tuple[Path, Path]:
    """Finds the folder and the checkpoint of the run for `resume=`: last, a run's folder or a .ckpt in one."""
    path = Run.latest().folder.absolute() if resume == "last" else Path(os.path.abspath(expanded(resume)))  # noqa: PTH100
    checkpoint = Run(path).last if path.is_dir() else path
    if not checkpoint.is_file():
        raise UsageError(f"resume={resume}: no {checkpoint}; give a run's folder, a .ckpt in one, or last")
    if checkpoint.parent.name != "checkpoints":
        raise UsageError(f"resume={resume}: it is not in the folder checkpoints of a run; give the run's folder")
    return checkpoint.parent.parent, checkpoint


def remove_if_empty(folder: Path) -> None:
    """Removes the folder of a refused run if it has only a lock that no other process holds; also removes an empty
    `runs` above it."""
    if Run(folder).is_empty:
        try:
            with Run(folder).lock():
                pass
        except OSError:
            return
        shutil.rmtree(folder)
        if folder.parent == RUNS.absolute():
            with contextlib.suppress(OSError):  # it has other runs
                folder.parent.rmdir()


@contextlib.contextmanager
def training_in(folder: Path) -> Iterator[None]:
    """Locks the folder of a run for this process, and says how to continue if the run stops.

    If several processes train together, only the first reports an error. The others end with success and without a
    message, because after a failure Lightning would kill the first.
    """
    from transformer.training.nonfinite import NonFiniteError

    go_on = f"continue with: {resume_command(folder)}"
    try:
        with Run(folder).lock() if rank() == 0 else contextlib.nullcontext():
            yield
    except (NonFiniteError, Interrupted) as error:
        if rank() != 0:
            sys.exit(0)
        if isinstance(error, Interrupted):
            error.advice = go_on if Run(folder).last.exists() else "nothing was saved yet"
        raise
    except OSError as error:
        is_of_disk = isinstance(error.__cause__, OSError) and error.__cause__.errno in UNWRITABLE
        if is_of_disk and rank() == 0:
            remedy = go_on if Run(folder).last.exists() else f"nothing is saved: {ELSEWHERE}"
            raise OSError(f"{error}; {remedy}") from error
        raise


def check_new_run(folder: Path, is_trial: bool) -> None:
    """Refuses a folder with links or with files that belong to no run; for a single run also the folder of another run.

    The trials of a sweep may be repeated in their folders.
    """
    run = Run(folder)
    is_run = run.last.exists()
    if is_run and not is_trial:
        raise UsageError(f"{folder} has a run: {resume_command(folder)} continues it; or choose another folder")
    run.check_entries()
    if not is_run and not run.has_begun and (foreign := run.entries()):
        raise UsageError(f"{foreign[0]} does not belong to a run and would be overwritten: choose a new folder")


def check_init_from(init_from: str | None) -> None:
    """Refuses a missing run in init_from, and names the experiment that trains it."""
    if init_from and not (path := Path(init_from)).exists():
        preset = CONFIGS / "experiment" / f"{path.name}.yaml"
        remedy = f" first, with experiment={path.name}" if preset.exists() else ""
        raise UsageError(f"init_from={path}: no such run or model file; train it{remedy}")
