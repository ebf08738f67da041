"""Commands check their arguments before slow imports, and a translation imports little."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.children import small_translator
from tests.scripts.running import PROJECT
from transformer.cli.app import COMMANDS

# Runs commands one after another and prints for each its exit status and the slow packages imported so far.
IMPORTED = """
import json, runpy, sys
for command in json.loads(sys.argv[1]):
    sys.argv = list(command)
    try:
        runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code or 0
    slow = {"torch", "torch._dynamo", "lightning", "torchmetrics", "matplotlib"}
    print("imported:", json.dumps([status, sorted(sys.modules.keys() & slow)]), file=sys.stderr)
"""


def imported_by(*commands: str, cwd: Path) -> dict[str, tuple[int, set[str]]]:
    """The exit status of each command, and the packages imported so far by the one Python that runs them all."""
    scripts = [[f"{PROJECT}/scripts/{name}.py", *arguments] for name, *arguments in map(str.split, commands)]
    command = [sys.executable, "-c", IMPORTED, json.dumps(scripts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    imported = [line.removeprefix("imported:") for line in done.stderr.splitlines() if line.startswith("imported:")]
    return {line: (status, {*slow}) for line, (status, slow) in zip(commands, map(json.loads, imported), strict=True)}


def test_help_and_mistakes_need_no_torch(tmp_path: Path) -> None:
    flags = ("translate --beem 3 a", "evaluate nowhere", "explain a --checkpoint nowhere", "export nix", "compare x")
    words = ("model.hed=3", "data=nix", "--heads=8", "model.heads=7", "search.min_length=999", "resume=last")
    missing = "data=files data.pairs=nowhere.tsv data.source_language=de data.target_language=en"
    mistakes = [
        *flags,
        "doctor nowhere.tsv",
        *(f"train {word}" for word in (*words, missing)),
        "back_translate folds=1",
    ]
    helped = ["train --help", "serve --help"]
    expected = {line: (0, set()) for line in helped} | {line: (2, set()) for line in mistakes}
    assert imported_by(*helped, *mistakes, cwd=tmp_path) == expected


def test_no_command_imports_torch_before_it_is_called() -> None:
    modules = [f"transformer.cli.{command.replace('-', '_')}" for command in COMMANDS]
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert not {"torch", "lightning", "torchmetrics", "matplotlib"} & {*done.stdout.split()}


@pytest.mark.long
def test_a_translation_needs_neither_lightning_nor_metrics_nor_pictures(tmp_path: Path) -> None:
    small_translator().save(tmp_path / "a.safetensors")
    command = "translate --checkpoint a.safetensors --method greedy --max-length 3 a"
    assert imported_by(command, cwd=tmp_path) == {command: (0, {"torch"})}


def test_importing_the_package_imports_no_other_package() -> None:
    code = "import sys, typing; before = {*sys.modules}; import transformer; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert {name.partition(".")[0] for name in done.stdout.split()} <= {"transformer", "importlib"}
