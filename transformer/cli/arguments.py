"""Brings what was typed into Hydra's grammar: text and paths arrive literally."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import OmegaConf

from transformer.config import UsageError
from transformer.data.corpus import FILE_SETTINGS
from transformer.data.printable import shell_word
from transformer.files import is_list_of_paths, read_path_list

EXTRA_TESTS = "data.extra_tests."  # followed by a name of the user's own, and a path
# Sections that may hold names our YAML does not have: Hydra takes these only with ++; {NAME: VALUE} sets several.
OPEN_SECTIONS = (EXTRA_TESTS, "data.extra_tests={", "data.sha256={")
PATHS = (
    *("checkpoint", "init_from", "resume", "runs", "cache", "input", "output", "fix", "source", "reference"),
    *("alignments", "api_key_file", "choose.reverse"),
    *(f"data.{name}" for name in (*FILE_SETTINGS, "file", "cache")),
)
STAGES = ("reverse", "augment", "forward", "finetune")  # further settings, for back_translate.py to hand on
LITERAL = ("text", "name", "host", *PATHS, *STAGES)
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir")  # literal too, except for interpolations such as ${now:%Y}
LANGUAGES = tuple(f"{section}{side}_language" for section in ("", "data.") for side in ("source", "target"))
# The group of a section that goes by another name: validation_search=greedy.
GROUP_OF_KEY = {"validation_search": "search@validation_search"}
# Lightning starts the other processes of a run with the arguments of the first and three more: this one, the run's
# folder in double quotes, and hydra.output_subdir.
LIGHTNING_CHILD = "hydra.job.name=train_ddp_process_"

# Python 3.14 checks every help text when it is added; Hydra's for --shell-completion becomes a text only when shown.
argparse.ArgumentParser._check_help = lambda *_: None  # type: ignore[attr-defined]
# "???" marks a missing value in OmegaConf: a text of this form comes from an interpolation.
OmegaConf.register_new_resolver("question_marks", lambda: "???", replace=True)


def split_override(override: str) -> tuple[str, str, str]:
    """Split `++key=value` into prefix, key and value; the value is not read."""
    prefix, key, value = re.fullmatch(r"([+~]*)([^=]*)=?(.*)", override, re.DOTALL).groups()  # type: ignore[union-attr]
    return prefix, key, value


def is_override(argument: str) -> bool:
    """Tell an override from one of Hydra's options and their values."""
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def is_sweep(typed: Sequence[str]) -> bool:
    """Look for -m and --multirun, which argparse also takes shortened, and for Hydra's third way to say so."""
    words = ("-m", "hydra.mode=MULTIRUN")
    return any(word in words or (len(word) > 2 and "--multirun".startswith(word)) for word in typed)


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


def pairs_settings(path: str) -> str:
    """What to type for a file of pairs."""
    return f"data=files data.pairs={shell_word(path)}"


def _check_group(configs: Path, prefix: str, key: str, value: str) -> None:
    """Refuse a choice that leads out of our folder of configs, where another YAML file could name code to run; and to
    take a group out."""
    group = key.partition("@")[0]
    if not group.strip(".") or ("/" not in group and not (configs / group).is_dir()):
        return
    key = key.rpartition("@")[2]  # as it was typed
    choices = ", ".join(sorted(path.stem for path in (configs / group).glob("*.yaml")))
    if group == "data" and not (configs / group / f"{value}.yaml").exists() and Path(value).is_file():
        raise UsageError(f"{key}={value}: a file of pairs is given by two settings: {pairs_settings(value)}")
    if prefix == "~":
        raise UsageError(f"~{key}: a group of settings cannot be taken out; leave this out")
    # What Hydra takes for a number or a boolean: it would not say whose value that is.
    not_text = r"[-+]?\.?\d[\d._]*(e[-+]?\d+)?|[-+]?inf|nan|true|false|null"
    if re.search(rf"(^|[,\[])({not_text})([,\]]|$)", value, re.IGNORECASE):
        raise UsageError(f"{key}={value}: leave this out, or choose one of {choices or 'its choices'}")
    if "/" in value or ".." in f"{key}{value}":
        raise UsageError(f"{key}={value}: a choice has no path in it; --config-dir=FOLDER adds configs of your own")


def _in_grammar(key: str, value: str, typed: Sequence[str]) -> str:
    if key in (*PATHS, *FOLDERS):  # shells leave it alone in data.train=~/x
        value = os.path.expanduser(value)  # noqa: PTH111  (which keeps ./null and a last slash)
    if key in ("runs", *FOLDERS) and (value in ("", "null") or Path(value).is_file()):
        raise UsageError(f"{key}={value} is no folder: name one")
    if key in PATHS and not value:
        raise UsageError(f"{key}= is empty: give a path, or {key}=null for none")
    if key in PATHS and value == "null":  # none, where a preset names one; a file of this name is ./null
        return value
    if key in LITERAL or key.startswith(EXTRA_TESTS):
        if value.encode(errors="replace").decode() != value:
            raise UsageError(f"{key} is not UTF-8 text")
        several = key in PATHS and is_sweep(typed) and not value.startswith("[") and is_list_of_paths(value)
        return ",".join(map(quote, read_path_list(value) if several else [value]))
    if key == "hydra.run.dir" and is_lightning_child(typed):
        return quote(value[1:-1])
    if key in LANGUAGES and value == "nan":  # Min Nan Chinese; Hydra would read a number that is none
        return quote(value)
    return quote(value, interpolate=True) if key in FOLDERS and value[:1] not in ("'", '"') else value


def prepare(typed: Sequence[str], configs: Path) -> list[str]:
    """Rewrite the arguments of a command for Hydra: overrides first, each key once, then options.

    Raises UsageError for what cannot be meant, and ArgumentError as argparse would.
    """
    options = [argument for argument in typed if not is_override(argument)]
    if any(option.partition("=")[0] == "--experiment" for option in options):
        # argparse would take it for a part of Hydra's --experimental-rerun.
        raise argparse.ArgumentError(None, "unrecognized arguments: --experiment")
    own_configs = any(option.startswith(("--config-dir", "-cd")) for option in options)
    # By key, as Hydra refuses a group that is chosen twice: the later one counts.
    prepared: dict[str, str] = {}
    for prefix, key, value in map(split_override, filter(is_override, typed)):
        if not key:
            raise UsageError(f"={value}: a setting needs a name: write KEY=VALUE")
        if not value.startswith("{"):
            key = GROUP_OF_KEY.get(key, key)
        if not own_configs:
            _check_group(configs, prefix, key, value)
        if prefix != "~" and f"{key}={value}".startswith(OPEN_SECTIONS):
            prefix = "++"
        earlier = prepared.pop(key, "")
        if earlier and key not in LITERAL and "{" in (value[:1], split_override(earlier)[2][:1]):
            raise UsageError(f"{key}= is typed twice, once with braces: set the parts one by one, {key}.NAME=VALUE")
        prepared[key] = f"{prefix}{key}" + (f"={_in_grammar(key, value, typed)}" if value or prefix != "~" else "")
    resumes = prepared.get("resume", "resume=null") != "resume=null" and not is_lightning_child(typed)
    if resumes and ("hydra.run.dir" in prepared or is_sweep(typed)):
        raise UsageError("resume= continues what was stopped, in its own place: leave out -m and hydra.run.dir")
    epochs = prepared.get("trainer.max_epochs", "=null").partition("=")[2]
    if epochs.lower() not in ("null", "-1"):
        prepared.setdefault("trainer.max_steps", "trainer.max_steps=-1")  # or the preset's steps would end it earlier
    return [*prepared.values(), *options]
