"""The folders of runs: a new one, and the one to resume.

Registers the resolvers that configs/*.yaml use for folders.
"""

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from transformer.cli import CONFIGS
from transformer.config import UsageError
from transformer.data.printable import script_command, shell_path
from transformer.files import LOCK, MODELS, UNWRITABLE, exclusive_lock, is_list_of_paths, new_folder, run_of
from transformer.processes import rank
from transformer.signals import Interrupted

# Folders that this process makes, or lets Hydra make, the deepest first: they go again if the run is refused.
new_folders: list[Path] = []


def by_time(runs: Path, file: str) -> list[Path]:
    """The files of this name in all runs and trials, those of the newest last."""
    paths = [path for depth in ("*", "*/*") for path in runs.glob(f"{depth}/{file}")]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, str(path)))


def newest_run(runs: Path) -> Path:
    """Find the run last written to, finished or not, a trial of a sweep included."""
    if not (finished := by_time(runs, MODELS[-1])):
        raise FileNotFoundError(f"no run with {MODELS[-1]} in {runs}: train one, or name another")
    return finished[-1].parent.parent


def find_resumable(resume: str, runs: Path) -> tuple[Path, Path]:
    """Find the folder and the checkpoint of the run that `resume=` means: last, a run's folder or a .ckpt in one."""
    # Not Path.resolve: for ModelCheckpoint, a link's other name would be another folder, without a best score.
    path = Path(os.path.abspath(newest_run(runs) if resume == "last" else resume))  # noqa: PTH100
    checkpoint = path / MODELS[-1] if path.is_dir() else path
    if not checkpoint.is_file():
        raise UsageError(f"resume={resume}: no {checkpoint}; give a run's folder, a .ckpt in one, or last")
    if checkpoint.parent.name != "checkpoints":
        raise UsageError(f"resume={resume}: it does not lie in the folder checkpoints of a run; give the run's folder")
    return checkpoint.parent.parent, checkpoint


def note_new_folder(folder: Path) -> None:
    """Remember which folders come into being with this one."""
    new_folders.extend(path for path in (folder, *folder.parents) if not path.exists())


@functools.cache
def dated_folder(runs: str, name: str | None, ending: str = "") -> str:
    """Make a folder with the date, the time and a name, also where two start in one second."""
    if name and Path(name).name != name:
        raise UsageError(f"name={name} ends the name of a folder: it has no / in it")
    suffix = (f"_{name}" if name else "") + ending
    note_new_folder(Path(runs))
    new_folders.insert(0, new_folder(Path(runs, f"{datetime.now():%Y-%m-%d_%H-%M-%S}{suffix}")))
    return str(new_folders[0])


@functools.cache  # one process has one run, however often Hydra resolves its folder
def run_folder(resume: str | None, runs: str, name: str | None) -> str:
    """Return the folder of the run that `resume` names, or make one that no other run has.

    None is made while a configuration is composed: there OmegaConf asks too, if a script says its own hydra.run.dir.
    """
    if not HydraConfig.initialized():
        raise UsageError("only a job that Hydra has started has a folder")
    if resume:
        return str(find_resumable(resume, Path(runs))[0])
    processes = [os.environ.get(variable, "") for variable in ("WORLD_SIZE", "SLURM_NTASKS")]
    if any(number.isdecimal() and int(number) > 1 for number in processes):  # an empty one says nothing
        raise UsageError("processes that torchrun or SLURM start need one folder: give hydra.run.dir=PATH")
    return dated_folder(runs, name)


OmegaConf.register_new_resolver("run_folder", run_folder, replace=True)
OmegaConf.register_new_resolver("dated_folder", dated_folder, replace=True)


def output_folder() -> Path:
    """Return the folder of the run, or of a sweep's trial, that Hydra has started."""
    return Path(HydraConfig.get().runtime.output_dir)


def trial_folder() -> Path | None:
    """Return the folder of a sweep's trial; None for a single run."""
    is_trial = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    return output_folder() if is_trial else None


def remove_empty_folders() -> None:
    """Remove what this process has made and put nothing into, but for the lock."""
    for folder in filter(Path.is_dir, new_folders):
        if {path.name for path in folder.iterdir()} <= {LOCK}:
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


@contextlib.contextmanager
def training_in(folder: Path) -> Iterator[None]:
    """Hold the folder of a run, which one process trains in at a time, and say how to go on with a run that stopped.

    Where several processes train together, the first speaks for all. The others end in silence and without a failure,
    for which Lightning would kill the first.
    """
    from transformer.training.nonfinite import NonFiniteError

    go_on = f"continue with: {script_command('train')} resume={shell_path(folder)}"
    try:
        with exclusive_lock(folder / LOCK, f"the run {folder}") if rank() == 0 else contextlib.nullcontext():
            yield
    except (NonFiniteError, Interrupted) as error:
        if rank() != 0:
            sys.exit(0)
        if isinstance(error, Interrupted):
            error.advice = go_on if (folder / MODELS[-1]).exists() else "nothing was saved yet"
        raise
    except OSError as error:
        is_of_disk = isinstance(error.__cause__, OSError) and error.__cause__.errno in UNWRITABLE
        if is_of_disk and (folder / MODELS[-1]).exists():
            raise OSError(f"{error}; {go_on}") from error
        raise


def check_new_run() -> None:
    """Refuse a folder with files of something else, or that lead elsewhere; to a single run also one that holds a run.

    The trials of a sweep may be repeated in their folders.
    """
    if not HydraConfig.initialized():
        return
    is_run = ((folder := output_folder()) / MODELS[-1]).exists()
    if is_run and trial_folder() is None:
        go_on = f"resume={shell_path(folder)} continues it; else choose another hydra.run.dir"
        raise UsageError(f"{folder} holds a run: {go_on}")
    from transformer.evaluation.run_files import check_entries, written_entries

    check_entries(folder)
    if not is_run and not (folder / LOCK).exists() and (foreign := written_entries(folder)):
        key = "hydra.run.dir" if trial_folder() is None else "hydra.sweep.dir"
        raise UsageError(
            f"{foreign[0]} does not belong to a run and would be overwritten: choose a new folder, {key}=PATH"
        )


def check_init_from(init_from: str | None) -> None:
    """Refuse a run to begin with that is not there, and name the experiment that trains it."""
    if init_from and not (path := Path(init_from)).exists():
        if re.fullmatch(r"\[.+\]", init_from) or is_list_of_paths(init_from):
            raise UsageError(f"init_from={init_from}: training begins with one model: name one")
        preset = CONFIGS / "experiment" / f"{path.name}.yaml"
        remedy = f": experiment={path.name} hydra.run.dir={shell_path(path)}" if preset.exists() else ""
        if init_from == "last":
            remedy = ", or name the folder of a run (last is for resume= only)"
        raise UsageError(f"init_from={path}: no such run or checkpoint; train it first{remedy}")
    if init_from and (trial := trial_folder()) and run_of(path).resolve() == trial.resolve():
        raise UsageError(
            f"init_from={path} lies in the folder of a trial, which begins anew: choose another hydra.sweep.dir"
        )
