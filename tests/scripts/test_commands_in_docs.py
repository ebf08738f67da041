"""The commands of README, docs and `--help` are those that the scripts take, also after a setting was renamed."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from transformer.cli.arguments import OPEN_SECTIONS, STAGES, is_override, prepare
from transformer.cli.hydra_errors import Settings
from transformer.cli.settings import NOT_DATA

PROJECT = Path(__file__).parents[2]
CONFIGS = PROJECT / "configs"
# The recipes of CONTRIBUTING.md make settings that are not here; tests/test_contributing.py carries them out.
TEXTS = [PROJECT / "README.md", *PROJECT.glob("docs/*.md"), *PROJECT.glob("data/*/README.md"), *CONFIGS.glob("*.yaml")]
SCRIPTS = sorted(path.stem for path in PROJECT.glob("scripts/*.py"))
# What stands for something that the reader knows, and what is the shell's.
PLACEHOLDER, SHELL = re.compile(r"…|\$[{\w]"), re.compile(r"[|&<>]")
OWN_PRESET = "experiment=chinese"  # the docs say how to write it
FOR_STAGE = {stage: "augment" if stage == "augment" else "train" for stage in STAGES}


def commands() -> list[tuple[str, Path, list[str]]]:
    """The scripts with the files that name them, and the settings given there."""
    found = []
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        parts = [text] if path.suffix == ".yaml" else re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
        for line in "".join(parts).replace("\\\n", " ").splitlines():
            for name, rest in re.findall(r"python scripts/(\w+)\.py( .*)?", "" if line.startswith("#") else line):
                words = shlex.split(rest, comments=True)
                shell = next((index for index, word in enumerate(words) if SHELL.match(word)), len(words))
                found.append((name, path, [word for word in words[:shell] if is_override(word)]))
    return found


COMMANDS = commands()


@cache
def settings_of(name: str) -> Settings:
    return Settings(name, CONFIGS)


def unknown(name: str, words: list[str]) -> list[str]:
    """Those of the settings that scripts/NAME.py does not have, and choices that no group has."""
    known, typed = settings_of(name), [word for word in words if not PLACEHOLDER.search(word.partition("=")[0])]
    names, found = {*known.names, *(f"data.{key}" for key in NOT_DATA), "hydra.run.dir"}, []
    for override in OverridesParser.create().parse_overrides(prepare(typed, CONFIGS)):
        key, value = override.get_key_element().lstrip("+~"), override.value()
        if name == "back_translate" and key in STAGES:
            found += unknown(FOR_STAGE[key], shlex.split(str(value)))
        elif key in known.choices and isinstance(value, str) and not PLACEHOLDER.search(value):
            found += [] if (CONFIGS / key.partition("@")[0] / f"{value}.yaml").is_file() else [f"{key}={value}"]
        elif key not in names and not key.startswith((*OPEN_SECTIONS, "hydra")):
            found.append(key)
    return found


def test_every_script_is_shown_in_use() -> None:
    assert {name for name, _, words in COMMANDS if words} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_settings_and_choices_of_a_command_in_the_docs_exist(name: str) -> None:
    for script, path, words in COMMANDS:
        if script == name:
            assert unknown(name, [word for word in words if word != OWN_PRESET]) == [], (path.name, words)


def test_what_does_not_exist_is_found() -> None:
    wrong = unknown("train", ["model.heads=8", "model.hed=3", "experiment=nix", "trainer.devices=2"])
    assert wrong == ["model.hed", "experiment=nix"]
    assert unknown("back_translate", ["input=a b", "forward=data.sinthetic=[a] seed=2"]) == ["data.sinthetic"]
