"""A run of several directions: learned, scored, stored in every file, chosen by languages, also untrained ones."""

import csv
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data.corpora import write
from tests.reliability.runs import assert_equal_runs, corpus, last, settings, train, trouble
from tests.scripts.running import ok, refused
from transformer import Translator
from transformer.inference.settings import SearchSettings
from transformer.tools.compare.run_results import read_results
from transformer.tools.export.engine import load as load_export
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
FRENCH = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]
DIRECTIONS = ["de-en", "en-de", "en-fr"]
NAMES = ["test", "test.en-de", "test.en-fr"]
GREEDY = SearchSettings("greedy", max_length=8)


def plain(folder: Path, **changes: Any) -> dict[str, Any]:
    corpus(folder)
    for name, numbers in (("train", range(17, 4000, 23)), ("validation", range(18, 4000, 97)), ("test", range(19, 29))):
        write(folder, f"{name}.fr", [" ".join(FRENCH[int(digit)] for digit in str(number)) for number in numbers])
    rest: dict[str, Any] = {"data__directions": DIRECTIONS, "tokenizer__vocabulary_size": 60, "loggers": ["csv"]}
    return settings(folder, **(rest | {"data__direction_temperature": 2.0} | changes))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 12 steps, which has hardly begun to learn."""
    folder = tmp_path_factory.mktemp("several")
    train(folder / "run", plain(folder, trainer__max_steps=12))
    return folder / "run"


def test_every_direction_is_scored_in_every_file(run: Path) -> None:
    results = json.loads((run / "test.json").read_text(encoding="utf-8"))
    assert [name for name in results if name.startswith("test")] == NAMES
    with (run / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["validation/bleu"]]
    assert len(rows) == 2
    for row in rows:
        scores = [float(row[f"validation/bleu.{direction}"]) for direction in DIRECTIONS]
        assert float(row["validation/bleu"]) == pytest.approx(sum(scores) / 3, abs=1e-4)
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "translates de → en and, with `--source` and `--target`, en → de, en → fr." in card
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert metadata["language"] == ["de", "en", "fr"]
    tasks = [(one["task"]["name"], one["dataset"]["split"]) for one in metadata["model-index"][0]["results"]]
    assert tasks == [("de → en", "test"), ("en → de", "test"), ("en → fr", "test")]
    assert all(f"| {name} | 10 |" in card for name in NAMES)
    assert "| train.en-de | 174 |" in card
    assert f"The model has seen {2 * 174} sentence pairs" in card, "those of en-de are those of de-en"


def test_the_translations_of_a_direction_are_those_of_the_loaded_model(run: Path) -> None:
    for name, languages in zip(NAMES, (("de", "en"), ("en", "de"), ("en", "fr")), strict=True):
        translator = Translator.load(run, source_language=languages[0], target_language=languages[1])
        assert translator.languages == languages
        sources = (run.parent / f"test.{languages[0]}").read_text(encoding="utf-8").splitlines()
        search = SearchSettings("greedy", beam=1, max_length=12, length_ratio=1.0, length_extra=3)
        assert (
            translator.translate(sources, search)
            == (run / f"hypotheses.{name}.txt").read_text(encoding="utf-8").splitlines()
        )
        results = read_results(run, name, str(run.parent / "cache"))
        assert (len(results.hypotheses), results.direction) == (10, languages)


def test_a_direction_that_was_not_trained_works_with_a_notice(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        translator = Translator.load(run, source_language="de", target_language="fr")
    assert translator.is_zero_shot
    assert "de → fr was not trained, only de → en, en → de, en → fr: a guess" in caplog.text
    other = Translator.load(run, target_language="fr")
    assert not other.is_zero_shot
    assert translator.translate(["neun"], GREEDY) == other.translate(["neun"], GREEDY)  # only the tag decides
    with pytest.raises(ValueError, match=r"translates de → en, en → de, en → fr, not from fr to de"):
        translator.in_direction("fr", "de")


def test_evaluating_takes_languages_and_marks_a_direction_that_was_not_trained(run: Path, tmp_path: Path) -> None:
    search = ["--method", "greedy", "--max-length", "4", "--metrics", "bleu", "--output", str(tmp_path)]
    printed = ok("evaluate", str(run), "--source", "de", "--target", "fr", *search, cwd=tmp_path)
    assert printed.startswith("test.de-fr BLEU ")
    results = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert (results["zero_shot"], results["test.de-fr"]["bleu"] >= 0) == (["test.de-fr"], True)
    said = refused("evaluate", str(run), "--split", "test.en-fr", *search, cwd=tmp_path)
    assert "--split test.en-fr: give --split test --source en --target fr" in said


@pytest.mark.long
def test_a_run_of_several_directions_is_resumed_exactly(run: Path, tmp_path: Path) -> None:
    def crash(states: Any) -> None:
        raise RuntimeError("a crash")

    chosen = plain(run.parent, trainer__max_steps=12, training__checkpoint_every_steps=2)
    train(tmp_path / "whole", chosen)
    with pytest.raises(RuntimeError, match="a crash"), trouble(9, crash):
        train(tmp_path / "crashed", chosen)
    with pytest.raises(ValueError, match=r"cannot change data\.directions"):
        train(
            tmp_path / "crashed",
            chosen | {"data": chosen["data"] | {"directions": DIRECTIONS[:2]}},
            last(tmp_path / "crashed"),
        )
    train(tmp_path / "crashed", chosen, last(tmp_path / "crashed"))
    assert_equal_runs(tmp_path / "crashed", tmp_path / "whole")


def test_exports_know_all_directions(run: Path, tmp_path: Path) -> None:
    translator = Translator.load(run)
    search = SearchSettings("beam", beam=2, max_length=8)
    assert translator.directions == (("de", "en"), ("en", "de"), ("en", "fr"))
    rounded = tmp_path / "rounded.safetensors"
    export(translator, ExportSettings("safetensors", "bfloat16", str(rounded)))
    assert Translator.load(rounded, target_language="fr").directions == translator.directions
    export(translator.in_direction("en", "fr"), ExportSettings("safetensors", "bfloat16", str(rounded)))
    assert Translator.load(rounded).languages == ("en", "fr")  # the exported direction
    pytest.importorskip("ctranslate2", reason="the export extra is not installed")
    export(translator, ExportSettings("ctranslate2", "float32", str(tmp_path / "engine")))
    engine = load_export(tmp_path / "engine")
    assert engine.directions == translator.directions
    french = engine.in_direction("en", "fr").translate(["nine one"], search)
    assert french == translator.in_direction("en", "fr").translate(["nine one"], search)


@pytest.mark.long
def test_the_doctor_looks_at_all_directions(run: Path, tmp_path: Path) -> None:
    leaked = (run.parent / "test.fr").read_text(encoding="utf-8").splitlines()[0]
    for language in ("de", "en", "fr"):
        text = (run.parent / f"train.{language}").read_text(encoding="utf-8")
        (tmp_path / f"train.{language}").write_text(
            text + (f"{leaked}\n" if language == "fr" else "zwölf\n"), encoding="utf-8"
        )
    splits = [f"data.{split}={run.parent / split}" for split in ("validation", "test")]
    arguments = ["data=files", f"data.train={tmp_path}/train", *splits, f"data.directions=[{','.join(DIRECTIONS)}]"]
    arguments.append(f"data.cache={tmp_path}/cache")
    printed = ok("doctor", *arguments, "--output", "report.json", cwd=tmp_path)
    assert "files: de → en, en → de, en → fr, pairs: train 175, " in printed
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    leaks = {one["split"]: one["lines"] for one in report["findings"] if one["check"] == "in a held-out split"}
    assert leaks["train.en-fr"] == [*leaks["train"], 175]
    said = refused("doctor", *arguments, "--fix", "clean", cwd=tmp_path)
    assert "--fix is for one set of pairs, and here are de → en, en → fr" in said
