"""The folders of runs: where they lie, the one to resume, and what a new one may not be."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from transformer.config import UsageError
from transformer.files import CONFIGS, LAST_CHECKPOINT, LOCK, UNWRITABLE, exclusive_lock, expanded
from transformer.printing import resume_command
from transformer.processes import rank
from transformer.signals import Interrupted

RUNS = Path("runs")  # in the current folder


def by_time(runs: Path, file: str) -> list[Path]:
    """The files of this name in all runs and trials, those of the newest last."""
    paths = [path for depth in ("*", "*/*") for path in runs.glob(f"{depth}/{file}")]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, str(path)))


def newest_run() -> Path:
    """Find the run last written to, finished or not, a trial of a sweep included."""
    if not (finished := by_time(RUNS, LAST_CHECKPOINT)):
        raise FileNotFoundError(f"no run with {LAST_CHECKPOINT} in {RUNS}: train one, or name another")
    return finished[-1].parent.parent


def find_resumable(resume: str) -> tuple[Path, Path]:
    """Find the folder and the checkpoint of the run that `resume=` means: last, a run's folder or a .ckpt in one."""
    path = newest_run().absolute() if resume == "last" else Path(os.path.abspath(expanded(resume)))  # noqa: PTH100
    checkpoint = path / LAST_CHECKPOINT if path.is_dir() else path
    if not checkpoint.is_file():
        raise UsageError(f"resume={resume}: no {checkpoint}; give a run's folder, a .ckpt in one, or last")
    if checkpoint.parent.name != "checkpoints":
        raise UsageError(f"resume={resume}: it does not lie in the folder checkpoints of a run; give the run's folder")
    return checkpoint.parent.parent, checkpoint


def remove_if_empty(folder: Path) -> None:
    """Remove the folder of a run that was refused, if nothing but a lock is in it, and an empty `runs` above it."""
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= {LOCK}:
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
        if folder.parent == RUNS.absolute():
            with contextlib.suppress(OSError):  # it holds other runs
                folder.parent.rmdir()


@contextlib.contextmanager
def training_in(folder: Path) -> Iterator[None]:
    """Hold the folder of a run, which one process trains in at a time, and say how to go on with a run that stopped.

    Where several processes train together, the first speaks for all. The others end in silence and without a failure,
    for which Lightning would kill the first.
    """
    from transformer.training.nonfinite import NonFiniteError

    go_on = f"continue with: {resume_command(folder)}"
    try:
        with exclusive_lock(folder / LOCK, f"the run {folder}") if rank() == 0 else contextlib.nullcontext():
            yield
    except (NonFiniteError, Interrupted) as error:
        if rank() != 0:
            sys.exit(0)
        if isinstance(error, Interrupted):
            error.advice = go_on if (folder / LAST_CHECKPOINT).exists() else "nothing was saved yet"
        raise
    except OSError as error:
        is_of_disk = isinstance(error.__cause__, OSError) and error.__cause__.errno in UNWRITABLE
        if is_of_disk and (folder / LAST_CHECKPOINT).exists():
            raise OSError(f"{error}; {go_on}") from error
        raise


def check_new_run(folder: Path, is_trial: bool) -> None:
    """Refuse a folder with files of something else, or that lead elsewhere; to a single run also one that holds a run.

    The trials of a sweep may be repeated in their folders.
    """
    from transformer.evaluation.run_files import check_entries, written_entries

    is_run = (folder / LAST_CHECKPOINT).exists()
    if is_run and not is_trial:
        raise UsageError(f"{folder} holds a run: {resume_command(folder)} continues it; else choose another folder")
    check_entries(folder)
    if not is_run and not (folder / LOCK).exists() and (foreign := written_entries(folder)):
        raise UsageError(f"{foreign[0]} does not belong to a run and would be overwritten: choose a new folder")


def check_init_from(init_from: str | None) -> None:
    """Refuse a run to begin with that is not there, and name the experiment that trains it."""
    if init_from and not (path := Path(init_from)).exists():
        preset = CONFIGS / "experiment" / f"{path.name}.yaml"
        remedy = f" first, by experiment={path.name}" if preset.exists() else ""
        raise UsageError(f"init_from={path}: no such run or model file; train it{remedy}")
