"""What a script imports before it knows that its arguments are right, and how little a translation needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.children import small_translator
from transformer import __version__
from transformer.cli import CONFIGS, PROJECT

# Runs commands one after another and says, of each, its exit status and the slow packages imported by then.
IMPORTED = """
import json, runpy, sys
for command in json.loads(sys.argv[1]):
    sys.argv = list(command)
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        slow = {"torch", "torch._dynamo", "lightning", "matplotlib", "sacrebleu", "torchmetrics"}
        print("imported:", json.dumps([end.code, sorted(sys.modules.keys() & slow)]), file=sys.stderr)
"""
Ends = list[tuple[int, list[str]]]


def imported_by(*commands: str) -> Ends:
    """The exit status of each command, and what one Python that runs them all had imported by then."""
    scripts = [[f"{PROJECT}/scripts/{name}.py", *arguments] for name, *arguments in map(str.split, commands)]
    command = [sys.executable, "-c", IMPORTED, json.dumps(scripts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [line.removeprefix("imported:") for line in done.stderr.splitlines() if line.startswith("imported:")]
    return [(status, imported) for status, imported in map(json.loads, told)]


def test_a_question_needs_no_torch() -> None:
    assert imported_by("train --help", "train --version") == 2 * [(0, [])]


@pytest.mark.long
def test_a_mistake_in_a_word_needs_no_torch(tmp_path: Path) -> None:
    mistakes = ("model.hed=3", "data=nix", "--heads=8", "seed=x", "model.heads=x", "test=maybe", "metrics=bleu")
    mistakes += ("trainer.max_stepz=3", "trainer.devices=auto", "trainer.logger=csv")
    scripts = ("translate", "evaluate", "export", "explain text=a")
    commands = [*(f"train {mistake}" for mistake in mistakes), *(f"{script} checkpoint=nowhere" for script in scripts)]
    ends = imported_by(*(f"{command} runs={tmp_path}" for command in commands))
    assert dict(zip(commands, ends, strict=True)) == dict.fromkeys(commands, (2, []))


@pytest.mark.long
def test_a_wrong_number_and_a_missing_corpus_need_no_lightning(tmp_path: Path) -> None:
    missing = "data=files data.pairs=nowhere.tsv data.source_language=de data.target_language=en"
    mistakes = ("model.heads=7", "training.learning_rate=-1", "search.min_length=999", missing)
    mistakes += ("trainer.max_time=1h", "trainer.strategy=fsdp", "trainer.max_steps=0")
    ends = imported_by(*(f"train {mistake} runs={tmp_path}" for mistake in mistakes))
    assert dict(zip(mistakes, ends, strict=True)) == dict.fromkeys(mistakes, (2, ["sacrebleu", "torch"]))


@pytest.mark.long
def test_a_translation_needs_neither_torchs_compiler_nor_lightning(tmp_path: Path) -> None:
    small_translator().save(tmp_path / "a.safetensors")
    command = f"translate checkpoint={tmp_path}/a.safetensors text=a search=greedy"
    assert imported_by(command) == [(0, ["torch"])]


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, typing; before = {*sys.modules}; import transformer; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["transformer"]


@pytest.mark.parametrize("path", sorted(PROJECT.glob("scripts/*.py")), ids=lambda path: path.stem)
def test_the_help_of_each_script_has_three_examples(path: Path) -> None:
    config = (CONFIGS / f"{path.stem}.yaml").read_text(encoding="utf-8")
    assert config.count(f"\n      python scripts/{path.stem}.py") == 3


def test_help_and_version_name_our_own_version() -> None:
    command = [sys.executable, str(PROJECT / "scripts" / "translate.py")]
    version, help_text = (
        subprocess.run([*command, option], capture_output=True, text=True, check=True).stdout
        for option in ("--version", "--help")
    )
    assert version == f"transformer-translator {__version__}\n"
    assert help_text.endswith(version)
