"""What a command imports before it knows that what was typed is right, and how little a translation needs."""

import json
import subprocess
import sys
from pathlib import Path

from tests.reliability.children import small_translator
from tests.scripts.running import PROJECT
from transformer.cli.app import COMMANDS

# Runs commands one after another and says, of each, its exit status and the slow packages imported by then.
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
    """The exit status of each command, and what one Python that runs them all has imported by then."""
    scripts = [[f"{PROJECT}/scripts/{name}.py", *arguments] for name, *arguments in map(str.split, commands)]
    command = [sys.executable, "-c", IMPORTED, json.dumps(scripts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    told = [line.removeprefix("imported:") for line in done.stderr.splitlines() if line.startswith("imported:")]
    return {line: (status, {*slow}) for line, (status, slow) in zip(commands, map(json.loads, told), strict=True)}


def test_help_and_a_mistake_in_what_is_typed_need_no_torch(tmp_path: Path) -> None:
    helped = [f"{command.replace('-', '_')} --help" for command in COMMANDS]
    flags = ("translate --beem 3 a", "evaluate nowhere", "explain a --checkpoint nowhere", "compare x", "export nix")
    flags += ("serve --port -1", "augment --output x", "doctor nowhere.tsv", "translate --n-best 9 a")
    words = ("model.hed=3", "data=nix", "--heads=8", "seed=x", "resume=last")
    mistakes = [*flags, *(f"train {word}" for word in words), "back_translate folds=1"]
    expected = {line: (0, set()) for line in helped} | {line: (2, set()) for line in mistakes}
    assert imported_by(*helped, *mistakes, cwd=tmp_path) == expected


def test_a_wrong_value_and_a_missing_corpus_need_no_lightning(tmp_path: Path) -> None:
    missing = "data=files data.pairs=nowhere.tsv data.source_language=de data.target_language=en"
    words = ("model.heads=7", "training.learning_rate=-1", "search.min_length=999", missing, "init_from=nowhere")
    found = imported_by(*(f"train {word}" for word in words), cwd=tmp_path)
    for line, (status, slow) in found.items():
        assert status == 2, line
        assert slow <= {"torch"}, line


def test_a_translation_needs_neither_lightning_nor_metrics_nor_pictures(tmp_path: Path) -> None:
    small_translator().save(tmp_path / "a.safetensors")
    command = "translate --checkpoint a.safetensors --method greedy --max-length 3 a"
    assert imported_by(command, cwd=tmp_path) == {command: (0, {"torch"})}


def test_importing_the_package_imports_no_other_package() -> None:
    code = "import sys, typing; before = {*sys.modules}; import transformer; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert {name.partition(".")[0] for name in done.stdout.split()} <= {"transformer", "importlib"}
