"""The command line that all scripts share: literal texts, one-line errors, resuming, tables of sweeps.

`launch` brings the arguments into Hydra's grammar (`prepare`), composes the configuration once to find every
mistake before work starts (`check`), and lets `hydra.main` do the rest.
"""

import functools
import logging
import os
import re
import select
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from transformer.cli.compose import CONFIGS, PROJECT
from transformer.cli.errors import UsageError, rank, report
from transformer.cli.sweeps import trial
from transformer.cli.validate import OURS, check, split, trainer_arguments

MODELS = ("translator.safetensors", "checkpoints/best.ckpt", "checkpoints/last.ckpt")  # the best one first
OTHERS = "data.extra_tests."  # a split's files under a name of its own
EXPORT = "export.json"  # in the folder of an export
DATA = tuple(f"data.{name}" for name in ("directory", "train", "validation", "test", "cache"))
PATHS = ("checkpoint", "init_from", "resume", "runs", "cache", "input", "output", "fix", "source", "reference", *DATA)
LITERAL = ("text", "name", *PATHS)  # their values reach the script exactly as typed
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir")  # literal too, but for Hydra's ${now:...}

# The saved settings of the run to be resumed, which Hydra overwrites before anyone can say whether they may be changed.
settings_before: dict[Path, bytes] = {}


OmegaConf.register_new_resolver("question_marks", lambda: "???", replace=True)  # see quote


def newest_run(runs: Path, files: Sequence[str] = MODELS[-1:]) -> Path:
    """Find the run last written to, a trial of a sweep included, so that nobody has to type a date."""
    found = [path for depth in ("*", "*/*") for file in files for path in runs.glob(f"{depth}/{file}")]
    if not found:
        raise FileNotFoundError(f"no run with {' or '.join(files)} in {runs}: train one, or name another")
    newest = max(found, key=lambda path: (path.stat().st_mtime_ns, str(path)))
    return newest.parent.parent if newest.parent.name == "checkpoints" else newest.parent


def find_checkpoint(value: str | None, runs: Path, exports: bool = False) -> Path:
    """Find the model that `checkpoint=` means: a file, or the best in a folder, or in the newest run.

    With `exports` it may be the folder of an export, which is returned as such.
    """
    place = newest_run(runs, MODELS) if value is None else Path(value)
    if (place / EXPORT).is_file():
        if not exports:
            raise UsageError(f"checkpoint={value} is an export, for translate.py only: name what it was made of")
        return place
    for path in (place, *(place / file for file in MODELS)):
        if path.is_file():
            return path
    if not place.exists():
        raise FileNotFoundError(f"checkpoint={value}: no such file or run folder")
    raise FileNotFoundError(f"checkpoint={value}: the folder has none of {', '.join(MODELS)}")


def check_output(output: str, folder: bool) -> None:
    """Refuse a place for results that is no `folder`, or no file, before the work that leads to them."""
    place = Path(output)
    if folder and place.exists() and not place.is_dir():
        raise UsageError(f"output={output} is a file: name a folder")
    if not folder and place.is_dir():
        raise UsageError(f"output={output} is a folder: name a file in it")


def quote(text: str, interpolate: bool = False) -> str:
    """Write a text so that Hydra and OmegaConf give it back unchanged."""
    if text == "???":  # as a value, OmegaConf's mark of a missing one
        text, interpolate = "${question_marks:}", True
    if not interpolate:
        text = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return QuotedString(text, Quote.single).with_quotes()


def prepare(argv: Sequence[str], resumable: bool = False, runs: Path = PROJECT / "runs") -> list[str]:
    """Bring arguments as typed into Hydra's grammar, with those of a run to be resumed beneath them."""

    def refuse(message: str) -> NoReturn:
        raise UsageError(f"{message}; --help shows the usage")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    arguments = parser.parse_intermixed_args(argv)
    typed, options = list(arguments.overrides), list(argv)
    for override in typed:
        options.remove(override)
    if any(override.startswith("hydra.job.name=train_ddp_process_") for override in typed):
        # A child of Lightning's launcher gets what we prepared for its parent and three overrides more, of
        # which the first has the run's folder in quotes but not escaped.
        typed[-3] = "hydra.run.dir=" + quote(split(typed[-3])[2][1:-1])
        return typed + options

    prepared: dict[str, str] = {}  # by key, since Hydra refuses a group that is chosen twice
    values = {key: value for _, key, value in map(split, typed)}
    if resumable and "resume" in values:
        if arguments.multirun or "hydra.run.dir" in values:
            raise UsageError("resume= continues one run in its own folder: leave out -m and hydra.run.dir")
        run, checkpoint = resumed(values["resume"], Path(values.get("runs", runs)))
        prepared = saved_overrides(run)
        typed += [f"hydra.run.dir={quote(str(run))}", f"resume={checkpoint}"]
    for override in typed:
        prefix, key, value = split(override)
        if key.startswith("trainer."):
            argument = key.split(".")[1]
            if argument in OURS:
                raise UsageError(f"{key} is {OURS[argument]}")
            if prefix != "~" and argument in trainer_arguments():
                override = f"++{key}={value}"  # whether or not our YAML mentions it
        if "=" in override and prefix != "~":
            if f"{key}.".startswith(OTHERS):
                prefix = "++"  # names of one's own, which no YAML has
                override = f"{prefix}{key}={value}"
            if key in LITERAL or key.startswith(OTHERS):
                if not value.isascii() and value.encode(errors="replace").decode() != value:
                    raise UsageError(f"{key} is not UTF-8 text")
                override = f"{prefix}{key}={quote(value)}"
            elif key in FOLDERS and value[:1] not in "'\"":
                override = f"{prefix}{key}={quote(value, interpolate=True)}"
        prepared.pop(key, None)
        prepared[key] = override
    if resumable and "trainer.max_epochs" in prepared and "trainer.max_steps" not in prepared:
        prepared["trainer.max_steps"] = "++trainer.max_steps=-1"  # who counts in epochs is not stopped by our steps
    for key in ("hydra/job_logging", "hydra/hydra_logging"):  # both would write to stdout
        prepared.setdefault(key, f"{key}=none")
    return list(prepared.values()) + options


def resumed(value: str, runs: Path) -> tuple[Path, Path]:
    """Find the folder and the checkpoint of the run that `resume=` means."""
    # Not Path.resolve: for ModelCheckpoint, a link's other name would be another folder, without a best score.
    place = Path(os.path.abspath(newest_run(runs) if value == "last" else value))  # noqa: PTH100
    checkpoint = place / MODELS[-1] if place.is_dir() else place
    run = checkpoint.parent.parent
    if not checkpoint.is_file():
        raise UsageError(f"resume={value}: no {checkpoint}; give a run's folder, a .ckpt in one, or last")
    if not (run / ".hydra" / "overrides.yaml").is_file():
        raise UsageError(f"resume={value}: {run} is no run's folder: it has no .hydra/overrides.yaml")
    files = (*(run / ".hydra").glob("*.yaml"), run / "config.yaml")
    settings_before.update({path: settled(path) for path in files if path.is_file()})
    return run, checkpoint


def settled(path: Path) -> bytes:
    """Read a file of settings that the first process of several, started a moment before, may be writing anew."""
    for _ in range(100):
        if content := path.read_bytes():
            return content
        time.sleep(0.05)
    raise UsageError(f"{path} is empty: the run cannot go on without it")


def put_back() -> None:
    """Leave a run that was not resumed after all as it was."""
    for path, content in settings_before.items():
        path.write_bytes(content)


def saved_overrides(run: Path) -> dict[str, str]:
    """Read a run's overrides by key; relative paths in them start where the run was started."""
    texts = [settled(run / ".hydra" / name).decode() for name in ("overrides.yaml", "hydra.yaml")]
    lines, about = map(OmegaConf.create, texts)
    start = OmegaConf.select(about, "hydra.runtime.cwd")
    saved = {split(str(line))[1]: str(line) for line in OmegaConf.to_container(lines) or []}
    for key, line in saved.items():
        if "_target_" in line or key.startswith("hydra") or key in (f"trainer.{name}" for name in OURS):
            raise UsageError(f"{run}: its .hydra/overrides.yaml was altered: {line}")  # it could run any code
        if (key in PATHS or key.startswith(OTHERS)) and (path := OverridesParser.create().parse_override(line).value()):
            saved[key] = f"{split(line)[0]}{key}={quote(str(Path(start, str(path))), interpolate=True)}"
    return saved


def stdout_is_open() -> bool:
    """Tell a reader that has gone (`translate.py | head`) from other broken pipes, keep the exit quiet."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if poll.poll(0):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own last flush
        return False
    return True


def own_folder(run: str, overrides: Sequence[str]) -> Path | None:
    """Give a run a folder that no other run has, also where two start in one second; one process writes settings.

    Returns the folder if it was made.
    """
    if rank() > 0:
        sys.argv.insert(1 + len(overrides), "hydra.output_subdir=null")
    keys = {split(override)[1] for override in overrides}
    if "hydra.run.dir" in keys:  # chosen, resumed, or that of the process which has started this one
        if "resume" not in keys and (Path(run) / MODELS[-1]).exists():
            raise UsageError(f"{run} holds a run: resume={run} goes on with it; else choose another hydra.run.dir")
        if Path(run).exists() and not Path(run).is_dir():
            raise UsageError(f"hydra.run.dir={run} is a file: name a folder")
        return None
    if any(int(os.environ.get(name, "1")) > 1 for name in ("WORLD_SIZE", "SLURM_NTASKS")):
        raise UsageError("processes that torchrun or SLURM start need one folder: give hydra.run.dir=PATH")
    from transformer.files import new_folder

    made = new_folder(Path(run))
    sys.argv.insert(1 + len(overrides), f"hydra.run.dir={quote(str(made))}")
    return made


def launch(
    function: Callable[[DictConfig], Any],
    config_name: str,
    configs: Path = CONFIGS,
    elsewhere: Callable[[DictConfig], Any] | None = None,
    check_values: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Run a script's function with the configuration that the command line asks for.

    `elsewhere` does the work of a sweep's trial in a process that one of Hydra's launchers has started; `check_values`
    looks at the settings of every trial before the first begins.
    """
    debug = any(argument.lstrip("+").lower() == "debug=true" for argument in sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors, and `report` says them in one line
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    logging.getLogger("lightning").propagate = False  # it brings a handler of its own: once is enough
    errors: list[Exception] = []

    @functools.wraps(function)
    def job(config: DictConfig) -> Any:
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            return trial(function, config, debug)
        try:
            results = function(config)
            sys.stdout.flush()
            return results
        except Exception as caught:
            errors.append(caught)  # kept from Hydra, which has its own way of printing it
        except SystemExit as stop:  # how Lightning ends after ctrl-c
            raise (KeyboardInterrupt() if isinstance(stop.__context__, KeyboardInterrupt) else stop) from None

    status = 2  # a mistake on the command line, until the work begins
    made: Path | None = None
    work: Callable[[DictConfig], Any] = job
    try:
        sys.argv[1:] = prepare(sys.argv[1:], resumable=config_name == "train")
        arguments = get_args_parser().parse_args()
        sweep = None
        if not (arguments.config_dir or arguments.config_path or arguments.shell_completion):
            name = arguments.config_name or config_name
            shows = arguments.cfg or arguments.help or arguments.hydra_help or arguments.info
            values = None if shows else check_values
            sweep, run = check(arguments.overrides, name, configs, arguments.multirun, values)
            if config_name == "train" and not sweep and not shows:
                made = own_folder(run, arguments.overrides)
        if any(split(override)[:2] == ("", "hydra/launcher") for override in arguments.overrides):
            if elsewhere is None:
                raise UsageError("hydra/launcher= is for train.py: leave it out, other sweeps run here")
            known = str(Path(sys.argv[0]).absolute().parent), str(Path(__file__).parent), *filter(None, sys.path)
            os.environ["PYTHONPATH"] = os.pathsep.join(known)
            work = elsewhere
        if sweep:
            sys.argv.insert(1 + len(arguments.overrides), f"hydra.sweep.dir={quote(sweep)}")  # for the table
            for stale in Path(sweep).rglob("result.json"):
                stale.unlink()
        status = 1
        hydra.main(version_base="1.3", config_path=str(configs), config_name=config_name)(work)()
        if errors:
            raise errors[0]
        if sweep:
            from transformer.cli.sweep_table import show_sweep  # late: the import takes seconds

            status = 0 if show_sweep(Path(sweep)) else 1
        else:
            status = 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        status = 130
    except Exception as error:
        if isinstance(error, BrokenPipeError) and not stdout_is_open():
            status = 141
        else:
            report(error, debug)
    if made and status and all(path.name == ".hydra" for path in made.iterdir()):
        shutil.rmtree(made)  # nothing was begun
    if status:
        sys.exit(status)
