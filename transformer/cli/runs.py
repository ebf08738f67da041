"""The folders of runs: a new one, the one to resume, the newest, and the checkpoint in it.

Registers the resolvers that configs/*.yaml use for folders.
"""

import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from transformer.cli import CONFIGS
from transformer.config import UsageError
from transformer.data.printable import say, shell_path
from transformer.files import (
    CARD,
    EXPORT_MANIFEST,
    HUGGINGFACE_TOKENIZER,
    MODELS,
    RESULTS,
    exclusive_lock,
    is_list_of_paths,
    new_folder,
    read_file,
    read_path_list,
    run_of,
)
from transformer.training.callbacks.signals import Interrupted

LOCK = ".lock"  # held by the process that trains
MAX_DESCRIPTION_BYTES = 1 << 22  # of a description or results, which take some thousand
# Folders that this process makes, or lets Hydra make, the deepest first: they go again if the run is refused.
new_folders: list[Path] = []


def _by_time(runs: Path, file: str) -> list[Path]:
    paths = [path for depth in ("*", "*/*") for path in runs.glob(f"{depth}/{file}")]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, str(path)))


def newest_run(runs: Path) -> Path:
    """Find the run last written to, finished or not, a trial of a sweep included."""
    if not (finished := _by_time(runs, MODELS[-1])):
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
    if any(int(os.environ.get(variable, "1")) > 1 for variable in ("WORLD_SIZE", "SLURM_NTASKS")):
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
    from transformer.training.callbacks.nonfinite import NonFiniteError
    from transformer.training.loggers import is_rank_zero

    try:
        # Before loggers are built, which cut the log back to the checkpoint.
        with exclusive_lock(folder / LOCK, f"the run {folder}") if is_rank_zero() else contextlib.nullcontext():
            yield
    except (NonFiniteError, Interrupted) as error:
        if not is_rank_zero():
            sys.exit(0)
        if isinstance(error, Interrupted):
            is_saved = (folder / MODELS[-1]).exists()
            go_on = f"go on with: python scripts/train.py resume={shell_path(folder)}"
            error.advice = go_on if is_saved else "nothing was saved yet"
        raise


def check_new_run() -> None:
    """Refuse a single run a folder that holds one already, or whose files lead elsewhere."""
    if not HydraConfig.initialized() or trial_folder() is not None:
        return
    if ((folder := output_folder()) / MODELS[-1]).exists():
        go_on = f"resume={shell_path(folder)} goes on with it; else choose another hydra.run.dir"
        raise UsageError(f"{folder} holds a run: {go_on}")
    from transformer.evaluation.run_files import check_entries, written_entries

    check_entries(folder)
    if not (folder / LOCK).exists() and (foreign := written_entries(folder)):
        raise UsageError(
            f"{foreign[0]} does not belong to a run and would be overwritten: choose a new folder, hydra.run.dir=PATH"
        )


def check_init_from(init_from: str | None) -> None:
    """Refuse a run to begin with that is not there, and name the experiment that trains it."""
    if init_from and not (path := Path(init_from)).exists():
        preset = CONFIGS / "experiment" / f"{path.name}.yaml"
        remedy = f": experiment={path.name} hydra.run.dir={shell_path(path)}" if preset.exists() else ""
        raise UsageError(f"init_from={path}: no such run or checkpoint; train it first{remedy}")


def newest_finished_run(runs: Path) -> Path:
    """Find the run that finished last: only then has it a model of its own beside the checkpoints."""
    if finished := _by_time(runs, MODELS[0]):
        return finished[-1].parent
    if unfinished := _by_time(runs, MODELS[-1]):
        run = shell_path(unfinished[-1].parent.parent)
        raise UsageError(f"no run in {runs} has finished: checkpoint={run} takes what that one has so far")
    raise FileNotFoundError(f"no run in {runs}: train one, or name another folder")


def find_checkpoint(value: str | None, runs: Path, exports: bool = False, key: str = "checkpoint") -> Path:
    """Find the model that `checkpoint=`, or the setting `key`, means: a file, or the best in a folder, or that of the
    newest finished run.

    With `exports` it may be the folder of an export, which is returned as such.
    """
    path = newest_finished_run(runs) if value is None else Path(value)
    if (path / HUGGINGFACE_TOKENIZER).is_file() and not any((path / file).is_file() for file in MODELS):
        return path
    if (path / EXPORT_MANIFEST).is_file():
        if not exports:
            raise UsageError(f"{key}={value} is an export, which this script cannot use: name what it was made of")
        return path
    for candidate in (path, *(path / file for file in MODELS)):
        if candidate.is_file():
            return candidate
    if is_list_of_paths(str(value)):
        raise UsageError(f"{key}={value}: one model is taken here, not several")
    if not path.exists():
        raise FileNotFoundError(f"{key}={value}: no such file or run folder")
    raise FileNotFoundError(f"{key}={value}: the folder has none of {', '.join(MODELS)}")


def find_checkpoints(value: str | None, runs: Path, exports: bool = True) -> list[Path]:
    """Find all that `checkpoint=[A,B]` means, each as `find_checkpoint` does."""
    if value is not None and not value.startswith("[") and is_list_of_paths(value):
        raise UsageError(f"checkpoint={value}: several models need brackets: checkpoint=[{value}]")
    if value is None or Path(value).exists() or not re.fullmatch(r"\[.+\]", value):
        return [find_checkpoint(value, runs, exports)]
    return [find_checkpoint(one, runs, exports) for one in read_path_list(value)]


def find_reverse(config: dict[str, Any]) -> dict[str, Any]:
    """The settings `choose` with the model that `choose.reverse=` means, if it names one."""
    choose, runs = config["choose"], Path(config["runs"])
    if not choose["reverse"]:
        return dict(choose)
    return choose | {"reverse": str(find_checkpoint(choose["reverse"], runs, key="choose.reverse"))}


def score_on(split: str, run: Path) -> list[str]:
    """A run's score on the test set, or on that of another direction, as `test bleu 97.3`, if it has left one."""
    results = run / RESULTS
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError, StopIteration, AttributeError):
        if results.is_file() and not results.is_symlink() and results.stat().st_size <= MAX_DESCRIPTION_BYTES:
            name, score = next(iter(json.loads(results.read_bytes())[split].items()))
            return [f"{split} {name} {float(score):.1f}"]
    return []


def _facts(run: Path) -> list[str]:
    """The languages of a run and its score on the test set, as far as its files tell: who loads them checks them."""
    facts: list[str] = []
    if not (run / MODELS[0]).is_file():  # reading a pipe would wait for ever
        return facts
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        with (run / MODELS[0]).open("rb") as file:
            header = json.loads(file.read(min(MAX_DESCRIPTION_BYTES, int.from_bytes(file.read(8), "little"))))
        description = json.loads(header["__metadata__"]["translator"])
        others = len(description.get("directions", [])) - 1
        more = f" and {others} other direction{'s' if others > 1 else ''}" if others > 0 else ""
        facts.append(f"{description['source_language']} → {description['target_language']}{more}")
        facts.extend(score_on("test", run))
    return facts


def announce_checkpoint(config: dict[str, Any], checkpoint: Path) -> None:
    """Say which run was taken where `checkpoint=` named none: its languages, its score, and how many newer runs were
    passed over; and that a run which was named has not finished."""
    run = run_of(checkpoint)
    if config["checkpoint"] is None:
        finished = checkpoint.stat().st_mtime_ns
        others = [path for path in _by_time(Path(config["runs"]), MODELS[-1]) if path.stat().st_mtime_ns > finished]
        count = sum(path.parent.parent != run for path in others)
        passed_over = [f"{count} newer not finished"] if count else []
        say(f"checkpoint={shell_path(run)} ({', '.join(['newest finished run', *_facts(run), *passed_over])})")
    elif checkpoint.parent.name == "checkpoints" and Path(config["checkpoint"]).is_dir():
        name = shell_path(run)
        say(f"{name} has not finished its training, this is its {checkpoint.name}: train.py resume={name} goes on")


def model_name(checkpoint: Path) -> str:
    """Name a model as its run's folder and the file in it."""
    run = run_of(checkpoint)
    return str(run.absolute().name / checkpoint.relative_to(run))


def read_card(checkpoint: Path) -> str:
    """Read the model card of a checkpoint's run; "" where there is none."""
    try:
        return read_file(run_of(checkpoint) / CARD).decode()
    except (OSError, ValueError):
        return ""


def _check_place(path: Path, key: str) -> None:
    """Refuse a place that cannot come into being, as a folder above it is a file or cannot be written."""
    whole = path.absolute()
    there = next(place for place in (whole, *whole.parents) if place.exists())
    if there != whole and not there.is_dir():
        raise UsageError(f"{key}={path}: {there} is a file, not a folder")
    if not os.access(there, os.W_OK):
        raise UsageError(f"{key}={path} cannot be written: name another place")


def check_output_folder(output: str) -> None:
    """Refuse a place for results that is no folder, before the work that leads to them."""
    path = Path(output)
    if path.exists() and not path.is_dir():
        raise UsageError(f"output={output} is a file: name a folder")
    _check_place(path, "output")


def is_run(folder: Path) -> bool:
    """Whether a folder has the model of a run, finished or not."""
    return any((folder / model).is_file() for model in MODELS)


def check_output_file(output: str, suffixes: Sequence[str] = (), key: str = "output") -> None:
    """Refuse a place for results that is no file, has none of `suffixes`, or has the name of a model."""
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"{key}={output} is a folder: name a file in it")
    suffix = path.suffix.lower()
    if suffixes and suffix not in suffixes:
        raise UsageError(f"{key}={output} must end in {' or '.join(suffixes)}")
    if not suffixes and suffix in (".safetensors", ".ckpt"):
        raise UsageError(f"{key}={output} has the name of a model: name another file")
    if is_run(run_of(path)) and any(path.match(model) for model in MODELS):
        raise UsageError(f"{key}={output} is a run's own model, which must stay as it is: name another")
    _check_place(path, key)
