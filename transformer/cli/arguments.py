"""Brings what was typed into Hydra's grammar: free text and paths arrive literally, `trainer.NAME=VALUE` needs no `+`.

This is the only place that changes arguments.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import OmegaConf

from transformer.config import UsageError
from transformer.data.corpus import FILE_SETTINGS
from transformer.files import is_list_of_paths, read_path_list

EXTRA_TESTS = "data.extra_tests."  # followed by a name of the user's own, and a path
PATHS = (
    *("checkpoint", "init_from", "resume", "runs", "cache", "input", "output", "fix", "source", "reference"),
    *("alignments", "api_key_file", "choose.reverse", "shortlist"),
    *(f"data.{name}" for name in (*FILE_SETTINGS, "file", "cache")),
)
STAGES = ("reverse", "augment", "forward", "finetune")  # further settings, for back_translate.py to hand on
LITERAL = ("text", "name", "host", *PATHS, *STAGES)
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir")  # literal too, but for interpolations such as ${now:%Y}
# The group of a section that goes by another name: validation_search=greedy.
GROUP_OF_KEY = {"validation_search": "search@validation_search"}
# Lightning starts the other processes of a run with the arguments of the first and three more: this one, the run's
# folder in double quotes, and hydra.output_subdir.
LIGHTNING_CHILD = "hydra.job.name=train_ddp_process_"

# "???" marks a missing value in OmegaConf: a text of this form comes from an interpolation.
OmegaConf.register_new_resolver("question_marks", lambda: "???", replace=True)


def split(override: str) -> tuple[str, str, str]:
    """Split `++key=value` into prefix, key and value; the value is not read."""
    prefix, key, value = re.fullmatch(r"([+~]*)([^=]*)=?(.*)", override, re.DOTALL).groups()  # type: ignore[union-attr]
    return prefix, key, value


def is_override(argument: str) -> bool:
    """Tell an override from one of Hydra's options and their values."""
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def is_multirun(argument: str) -> bool:
    """Recognize -m and --multirun, which argparse also takes shortened."""
    return argument == "-m" or (len(argument) > 2 and "--multirun".startswith(argument))


def is_lightning_child(typed: Sequence[str]) -> bool:
    """Recognize a process that Lightning has started beside the first one of a run."""
    return any(argument.startswith(LIGHTNING_CHILD) for argument in typed)


def quote(text: str, interpolate: bool = False) -> str:
    """Write a text so that Hydra and OmegaConf give it back unchanged."""
    if text == "???":
        text, interpolate = "${question_marks:}", True
    if not interpolate:
        text = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return QuotedString(text, Quote.single).with_quotes()


def _check_group(configs: Path, prefix: str, key: str, value: str) -> None:
    """Refuse a choice that leads out of our folder of configs, where another YAML file could name code to run; and to
    take a group out."""
    group = key.partition("@")[0]
    is_group = "/" in group or (configs / group).is_dir()
    if is_group and prefix == "~":
        choices = ", ".join(sorted(path.stem for path in (configs / group).glob("*.yaml")))
        raise UsageError(f"~{key}: a group of settings cannot be taken out; leave this out, or choose one of {choices}")
    if is_group and ("/" in value or ".." in f"{key}{value}"):
        raise UsageError(f"{key}={value}: a choice has no path in it; --config-dir=FOLDER adds configs of your own")


def _prepare_one(prefix: str, key: str, value: str, is_child: bool) -> str:
    if prefix == "~":
        return f"~{key}={value}" if value else f"~{key}"
    if key.startswith(("trainer.", EXTRA_TESTS)):
        prefix = "++"  # whether or not our YAML names it
    if key in PATHS and value == "null":  # none, where a preset names one; a file of this name is ./null
        return f"{prefix}{key}=null"
    if key in LITERAL or key.startswith(EXTRA_TESTS):
        if not value.isascii() and value.encode(errors="replace").decode() != value:
            raise UsageError(f"{key} is not UTF-8 text")
        value = quote(value)
    elif key == "hydra.run.dir" and is_child:
        value = quote(value[1:-1])
    elif key == "hydra.run.dir" and Path(value).is_file():
        raise UsageError(f"hydra.run.dir={value} is a file: name a folder")
    elif key in FOLDERS and value[:1] not in ("'", '"'):
        value = quote(value, interpolate=True)
    return f"{prefix}{key}={value}"


def prepare(typed: Sequence[str], configs: Path) -> list[str]:
    """Rewrite the arguments of a command for Hydra: overrides first, each key once, then options.

    Raises UsageError for what cannot be meant.
    """
    options = [argument for argument in typed if not is_override(argument)]
    own_configs = any(option.startswith(("--config-dir", "-cd")) for option in options)
    is_sweep = any(map(is_multirun, options))
    is_child = is_lightning_child(typed)
    # By key, as Hydra refuses a group that is chosen twice: the later one counts.
    prepared: dict[str, str] = {}
    for prefix, key, value in map(split, filter(is_override, typed)):
        if not key:
            raise UsageError(f"={value}: a setting needs a name: write KEY=VALUE")
        key = key if value.startswith("{") else GROUP_OF_KEY.get(key, key)
        if not own_configs:
            _check_group(configs, prefix, key, value)
        prepared.pop(key, None)
        if is_sweep and key in PATHS and not value.startswith("[") and is_list_of_paths(value):
            prepared[key] = f"{prefix}{key}={','.join(map(quote, read_path_list(value)))}"
        else:
            prepared[key] = _prepare_one(prefix, key, value, is_child)
    if "resume" in prepared and not is_child and ("hydra.run.dir" in prepared or is_sweep):
        raise UsageError("resume= continues one run in its own folder: leave out -m and hydra.run.dir")
    if "trainer.max_epochs" in prepared and "trainer.max_steps" not in prepared:
        prepared["trainer.max_steps"] = "++trainer.max_steps=-1"  # the preset's number of steps must not end it earlier
    return [*prepared.values(), *options]
