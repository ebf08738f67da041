"""The result of `pip install` with the wheel: the commands, the settings and the bundled corpus, in any folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.scripts.running import PROJECT
from transformer.cli.app import COMMANDS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, PROJECT], check=True)
    [built] = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with only the wheel; its dependencies are already installed."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, wheel], check=True)
    return folder


def python(site: Path, cwd: Path, *arguments: str) -> str:
    """The output of a Python that finds the wheel first."""
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_small_and_holds_all_settings_and_the_corpus(wheel: Path) -> None:
    assert wheel.stat().st_size <= 3 << 20
    held = {*zipfile.ZipFile(wheel).namelist()}
    for folder in ("configs", "data/toy"):
        paths = (path for path in (PROJECT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        files = [path.relative_to(PROJECT) for path in paths]
        assert files
        assert {f"transformer/{path.as_posix()}" for path in files} <= held
    assert not [name for name in held if name.startswith(("tests", "scripts", "docs"))]


def test_its_commands_work_in_an_empty_folder(site: Path, tmp_path: Path) -> None:
    imported = python(site, tmp_path, "-c", "import transformer; print(transformer.__file__)").strip()
    assert imported == str(site / "transformer" / "__init__.py")
    listed = python(site, tmp_path, str(site / "bin" / "translator"), "--help")
    assert all(f" {command} " in listed for command in COMMANDS)

    small = ["model.dim=32", "model.feed_forward.dim=64", "tokenizer.vocabulary_size=300", "search=greedy"]
    few = ["trainer.max_steps=2", "trainer.limit_val_batches=1", "trainer.limit_test_batches=1"]
    short = ["validation_search.max_length=4", "search.max_length=4", "training.validate_every=2", "trainer=cpu"]
    python(site, tmp_path, "-m", "transformer", "train", *small, *few, *short)
    assert {path.name for path in tmp_path.iterdir()} == {"runs", ".cache"}
    [run] = (tmp_path / "runs").iterdir()
    corpus = str(site / "transformer" / "data" / "toy")
    assert corpus in (run / "config.yaml").read_text(encoding="utf-8")

    fast = ["--method", "greedy", "--max-length", "4"]
    assert python(site, tmp_path, "-m", "transformer", "translate", *fast, "Der Hund schläft.").count("\n") == 1
    assert "BLEU" in python(site, tmp_path, "-m", "transformer", "evaluate", *fast)
    python(site, tmp_path, "-m", "transformer", "export", "page", "--output", "page.html")
    assert (tmp_path / "page.html").stat().st_size > 50_000
