"""What a script imports before it knows that its arguments are right, and how little a translation needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.children import small_translator
from transformer import __version__
from transformer.cli import CONFIGS, PROJECT

# Runs a script and ends with the names of the slow packages that it has imported.
IMPORTED = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    slow = ("torch", "torch._dynamo", "lightning", "matplotlib", "sacrebleu", "torchmetrics")
    print("imported:", *sorted(sys.modules.keys() & set(slow)), file=sys.stderr)
"""


def imported_by(name: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", IMPORTED, str(PROJECT / "scripts" / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.splitlines()[-1].removeprefix("imported:").split()


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        *(("train", argument) for argument in ("--help", "--version", "model.hed=3", "data=nix", "--heads=8")),
        *(("train", argument) for argument in ("seed=x", "model.heads=x", "test=maybe", "metrics=bleu")),
        *((name, "checkpoint=nowhere") for name in ("translate", "evaluate", "export", "explain")),
    ],
)
def test_a_mistake_and_a_question_need_no_torch(name: str, argument: str, tmp_path: Path) -> None:
    assert imported_by(name, argument, *(["text=a"] if name == "explain" else []), f"runs={tmp_path}") == []


@pytest.mark.parametrize("argument", ["model.heads=7", "training.learning_rate=-1", "search.min_length=999"])
def test_a_wrong_number_needs_neither_lightning_nor_torchmetrics(argument: str, tmp_path: Path) -> None:
    assert imported_by("train", argument, f"runs={tmp_path}") == ["sacrebleu", "torch"]


def test_a_translation_needs_neither_torchs_compiler_nor_lightning(tmp_path: Path) -> None:
    small_translator().save(tmp_path / "a.safetensors")
    assert imported_by("translate", f"checkpoint={tmp_path}/a.safetensors", "text=a b", "search=greedy") == ["torch"]


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, typing; before = {*sys.modules}; import transformer; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["transformer"]


@pytest.mark.parametrize("path", sorted(PROJECT.glob("scripts/*.py")), ids=lambda path: path.stem)
def test_help_begins_with_three_examples_and_ends_with_our_version(path: Path) -> None:
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
    assert help_text.count("\npython scripts/translate.py ") == 3
