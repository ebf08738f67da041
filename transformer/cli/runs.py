"""The folders of runs: a new one, the one to resume, the newest, and the checkpoint in it.

Registers the resolvers that configs/*.yaml use for folders.
"""

import contextlib
import functools
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from transformer.cli import CONFIGS
from transformer.config import UsageError
from transformer.files import exclusive_lock, new_folder
from transformer.training.callbacks.signals import Interrupted

MODELS = ("translator.safetensors", "checkpoints/best.ckpt", "checkpoints/last.ckpt")  # the best one first
LOCK = ".lock"  # held by the process that trains
EXPORT = "export.json"  # in the folder of an export
HUB = "tokenizer_config.json"  # in a folder of Hugging Face's transformers
# Folders that this process makes, or lets Hydra make, the deepest first: they go again if the run is refused.
new_folders: list[Path] = []


@functools.cache  # one process has one run, however often Hydra resolves its folder
def run_folder(resume: str | None, runs: str, name: str | None) -> str:
    """Return the folder of the run that `resume` names, or make one that no other run has."""
    if resume:
        return str(find_resumable(resume, Path(runs))[0])
    if any(int(os.environ.get(variable, "1")) > 1 for variable in ("WORLD_SIZE", "SLURM_NTASKS")):
        raise UsageError("processes that torchrun or SLURM start need one folder: give hydra.run.dir=PATH")
    return dated_folder(runs, name)


@functools.cache
def dated_folder(runs: str, name: str | None, ending: str = "") -> str:
    """Make a folder with the date, the time and a name, also where two start in one second."""
    suffix = (f"_{name}" if name else "") + ending
    note_new_folder(Path(runs))
    new_folders.insert(0, new_folder(Path(runs, f"{datetime.now():%Y-%m-%d_%H-%M-%S}{suffix}")))
    return str(new_folders[0])


OmegaConf.register_new_resolver("run_folder", run_folder, replace=True)
OmegaConf.register_new_resolver("dated_folder", dated_folder, replace=True)


def output_folder() -> Path:
    """Return the folder of the run, or of a sweep's trial, that Hydra has started."""
    return Path(HydraConfig.get().runtime.output_dir)


def trial_folder() -> Path | None:
    """Return the folder of a sweep's trial; None for a single run."""
    is_trial = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    return output_folder() if is_trial else None


def note_new_folder(folder: Path) -> None:
    """Remember which folders come into being with this one."""
    new_folders.extend(path for path in (folder, *folder.parents) if not path.exists())


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
    from transformer.training.callbacks.nonfinite import NonFiniteError
    from transformer.training.loggers import first_process

    try:
        # Before loggers are built, which cut the log back to the checkpoint.
        with exclusive_lock(folder / LOCK, f"the run {folder}") if first_process() else contextlib.nullcontext():
            yield
    except (NonFiniteError, Interrupted) as error:
        if not first_process():
            sys.exit(0)
        if isinstance(error, Interrupted):
            is_saved = (folder / MODELS[-1]).exists()
            go_on = f"go on with: python scripts/train.py resume={as_typed(folder)}"
            error.advice = go_on if is_saved else "nothing was saved yet"
        raise


def check_new_run() -> None:
    """Refuse a single run a folder that holds one already, or whose files lead elsewhere."""
    if not HydraConfig.initialized() or trial_folder() is not None:
        return
    if ((folder := output_folder()) / MODELS[-1]).exists():
        raise UsageError(f"{folder} holds a run: resume={folder} goes on with it; else choose another hydra.run.dir")
    from transformer.evaluation.run_files import check_entries

    check_entries(folder)


def find_resumable(resume: str, runs: Path) -> tuple[Path, Path]:
    """Find the folder and the checkpoint of the run that `resume=` means: last, a run's folder or a .ckpt in one."""
    # Not Path.resolve: for ModelCheckpoint, a link's other name would be another folder, without a best score.
    path = Path(os.path.abspath(newest_run(runs) if resume == "last" else resume))  # noqa: PTH100
    checkpoint = path / MODELS[-1] if path.is_dir() else path
    if not checkpoint.is_file():
        raise UsageError(f"resume={resume}: no {checkpoint}; give a run's folder, a .ckpt in one, or last")
    if checkpoint.parent.name != "checkpoints":
        raise UsageError(f"resume={resume}: it does not lie in the folder checkpoints of a run")
    return checkpoint.parent.parent, checkpoint


def check_init_from(init_from: str | None) -> None:
    """Refuse a run to begin with that is not there, and name the experiment that trains it."""
    if init_from and not (path := Path(init_from)).exists():
        preset = CONFIGS / "experiment" / f"{path.name}.yaml"
        remedy = f": experiment={path.name} hydra.run.dir={as_typed(path)}" if preset.exists() else ""
        raise UsageError(f"init_from={path}: no such run or checkpoint; train it first{remedy}")


def newest_run(runs: Path, files: Sequence[str] = MODELS[-1:]) -> Path:
    """Find the run last written to, a trial of a sweep included."""
    paths = [path for depth in ("*", "*/*") for file in files for path in runs.glob(f"{depth}/{file}")]
    if not paths:
        raise FileNotFoundError(f"no run with {' or '.join(files)} in {runs}: train one, or name another")
    newest = max(paths, key=lambda path: (path.stat().st_mtime_ns, str(path)))
    return newest.parent.parent if newest.parent.name == "checkpoints" else newest.parent


def find_checkpoint(value: str | None, runs: Path, exports: bool = False) -> Path:
    """Find the model that `checkpoint=` means: a file, or the best in a folder, or in the newest run.

    With `exports` it may be the folder of an export, which is returned as such.
    """
    path = newest_run(runs, MODELS) if value is None else Path(value)
    if (path / HUB).is_file() and not any((path / file).is_file() for file in MODELS):
        return path
    if (path / EXPORT).is_file():
        if not exports:
            raise UsageError(f"checkpoint={value} is an export, for translate.py only: name what it was made of")
        return path
    for candidate in (path, *(path / file for file in MODELS)):
        if candidate.is_file():
            return candidate
    if not path.exists():
        raise FileNotFoundError(f"checkpoint={value}: no such file or run folder")
    raise FileNotFoundError(f"checkpoint={value}: the folder has none of {', '.join(MODELS)}")


def run_of(checkpoint: Path) -> Path:
    """Return the folder of the run that a checkpoint lies in, or just its folder."""
    return checkpoint.parent.parent if checkpoint.parent.name == "checkpoints" else checkpoint.parent


def check_output(output: str, folder: bool) -> None:
    """Refuse a place for results that is no `folder`, or no file, before the work that leads to them."""
    path = Path(output)
    if folder and path.exists() and not path.is_dir():
        raise UsageError(f"output={output} is a file: name a folder")
    if not folder and path.is_dir():
        raise UsageError(f"output={output} is a folder: name a file in it")


def as_typed(path: Path) -> str:
    """Write a path as it can be typed in a shell from here."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
