"""Runs and models of earlier versions can be read (tests/old/ has one, written by commit a3b47d6), and new ones too."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from tests.cli.tiny import STEPS, TINY, few_pairs
from tests.scripts.running import PROJECT, ok, refused
from transformer import Translator
from transformer.cli.train import read_run_settings
from transformer.config import from_dict
from transformer.inference.settings import SearchSettings
from transformer.model.config import ModelConfig, read_model
from transformer.run import FORMAT, Run
from transformer.training.config import RunSettings, check_settings

OLD = PROJECT / "tests" / "old" / "run_a3b47d6"
# For a run that begins with a model: that model brings its own shape and tokenizers.
OF_MODEL = [word for word in TINY if not word.startswith(("model.", "tokenizer."))]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the old run, and with its corpus."""
    folder = few_pairs(tmp_path_factory.mktemp("home"))
    config = Path(shutil.copytree(OLD, folder / "old")) / "config.yaml"
    here = config.read_text(encoding="utf-8").replace("/somewhere/project", str(PROJECT))
    config.write_text(here, encoding="utf-8")
    return folder


def test_an_old_model_translates_as_it_did(home: Path) -> None:
    written = (OLD / "greedy.en").read_text(encoding="utf-8")
    lines = (OLD / "in.de").read_text(encoding="utf-8").splitlines()
    translated = Translator.load(OLD, "cpu", "float32").translate(lines, SearchSettings("greedy"))
    assert "".join(f"{line}\n" for line in translated) == written
    exact = ["--method", "greedy", "--precision", "float32", "--device", "cpu"]
    assert ok("translate", "--checkpoint", "old", *exact, "--input", "old/in.de", cwd=home) == written


def test_the_settings_of_an_old_run_are_read_and_pass_todays_checks() -> None:
    settings = Run(OLD).settings
    model = settings.pop("model")
    run = from_dict(RunSettings, settings)
    assert (run.trainer.max_steps, run.trainer.precision, run.machine.threads, run.seed) == (500, "bf16-mixed", 1, 1)
    assert run.metrics == settings["metrics"]
    for key in ("search", "training", "tokenizer"):  # newer settings have their defaults
        assert asdict(run)[key] == asdict(run)[key] | settings[key]
    check_settings(run, read_model(model))
    assert asdict(read_model(model)).items() >= model.items()


@pytest.mark.long
def test_an_old_run_is_scored_as_it_was(home: Path) -> None:
    asked = ["--output", "scored", "--precision", "float32", "--device", "cpu"]
    ok("evaluate", "old", *asked, "--no-repeat", "0", cwd=home)  # the search had no second pass then
    before = json.loads((OLD / "test.json").read_text(encoding="utf-8"))["test"]
    scores = json.loads((home / "scored" / "evaluation.json").read_text(encoding="utf-8"))["test"]
    assert scores["signatures"] == before.pop("signatures")
    assert {name: scores[name] for name in before} == pytest.approx(before, abs=0.2)


@pytest.mark.long
def test_an_old_run_is_compared(home: Path) -> None:
    shutil.copytree(home / "old", home / "other")
    ok("compare", "old", "other", "--resamples", "50", "--trials", "50", "--output", "compared", cwd=home)
    assert (home / "compared" / "comparison.json").exists()


@pytest.mark.long
def test_a_new_run_begins_with_an_old_model(home: Path) -> None:
    # Dropout is not part of a model: it depends on the corpus.
    ok("train", *OF_MODEL, "model.dropout=0.1", "init_from=old", "hydra.run.dir=new", cwd=home)
    assert Translator.load(home / "new").model.config == Translator.load(OLD).model.config
    assert torch.load(home / "new/checkpoints/last.ckpt", weights_only=True)["progress"]["step"] == STEPS


def test_an_old_run_is_not_resumed(home: Path) -> None:
    assert "resume=old" in refused("train", "resume=old", cwd=home)


def test_a_run_of_today_is_read_back(home: Path) -> None:
    ok("train", *TINY, "hydra.run.dir=today", cwd=home)
    checkpoint = torch.load(home / "today/checkpoints/last.ckpt", weights_only=True)
    assert checkpoint["format"] == FORMAT
    assert f"format: {FORMAT}\n" in (home / "today" / "config.yaml").read_text(encoding="utf-8")
    settings = Run(home / "today").settings
    assert settings.items() <= checkpoint["settings"].items()
    run = read_run_settings(settings)
    assert asdict(run) == {key: value for key, value in settings.items() if key != "model"}
    of_file = Translator.load(home / "today").model.config
    sizes = {"source_vocab_size": of_file.source_vocab_size, "target_vocab_size": of_file.target_vocab_size}
    assert from_dict(ModelConfig, settings["model"] | sizes) == of_file
