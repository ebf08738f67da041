"""What is scored is read from a run's folder as data: a stranger's folder chooses no place to write to."""

import json
import logging
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.factories import composed, data_settings
from tests.reliability import hostile
from transformer.cli.settings import INFERENCE
from transformer.config import from_dict
from transformer.evaluation.choosing import Chooser
from transformer.evaluation.evaluate import EvaluationSettings, Texts, read_texts, translate_texts, write_evaluation
from transformer.evaluation.metrics import score
from transformer.evaluation.run_files import write_config
from transformer.inference.settings import ChoiceSettings
from transformer.inference.translator import BEAM


def run_in(folder: Path, **changes: Any) -> Path:
    """A run's folder with a corpus of one pair, tested on other files."""
    for language, text in (("de", "Hallo"), ("en", "Hello")):
        (folder / f"x.{language}").write_text(f"{text}\n", encoding="utf-8")
    files = dict.fromkeys(("train", "validation", "test"), str(folder / "x"))
    write_config(folder, {"data": asdict(data_settings(**files)) | changes})
    (folder / "test.json").write_text(json.dumps({"corpus": {"test": "0" * 64}}), encoding="utf-8")
    return folder


def evaluation(folder: Path, **changes: Any) -> EvaluationSettings:
    config = composed(name="evaluate")
    names = (
        "split",
        "source",
        "reference",
        "alignments",
        "source_language",
        "target_language",
        "metrics",
        "search",
        "choose",
        "machine",
        "cache",
    )
    settings = {name: config[name] for name in names} | {"data": None, "output": str(folder), "checkpoints": ["x"]}
    settings["inference"] = {name: config[name] for name in INFERENCE}
    return from_dict(EvaluationSettings, settings | changes, "")


def test_an_error_in_a_pipe_stands_alone_without_a_bar_of_progress(capfd: pytest.CaptureFixture[str]) -> None:
    translator = hostile.translator()
    chooser = Chooser(translator, from_dict(ChoiceSettings, composed(name="evaluate")["choose"], "choose"))
    with pytest.raises(ValueError, match=r"search\.min_length=2000 is more than"):
        translate_texts(chooser, Texts("test", ["a"], ["b"]), replace(BEAM, min_length=2000, max_length=3000), None)
    assert capfd.readouterr() == ("", "")


def test_results_on_other_files_than_the_runs_have_a_name_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = read_texts(evaluation(tmp_path), run_in(tmp_path, name="mine"), ("de", "en"), [("de", "en")])
    assert "are not those that" in caplog.text
    assert texts == ("mine.test", ["Hallo"], ["Hello"])


def test_the_columns_of_a_table_are_swapped_for_the_way_back(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Hello\tby me\tHallo\n", encoding="utf-8")
    table = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    run = run_in(tmp_path, **table, columns=[3, 1])
    back = read_texts(evaluation(tmp_path, target_language="de"), run, ("en", "de"), [("de", "en")])
    assert (back.sources, back.references) == (["Hello"], ["Hallo"])


@pytest.mark.parametrize("name", ["x/../../victim", "/tmp/x", "..", "\x1b[2J"])
def test_the_name_of_a_corpus_cannot_choose_another_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="this cannot be part of a file's name"):
        read_texts(evaluation(tmp_path), run_in(tmp_path, name=name), ("de", "en"), [("de", "en")])


def test_source_and_reference_go_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source=FILE and reference=FILE go together"):
        evaluation(tmp_path, source="x")


def test_a_corpus_of_other_languages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="translates fr → en, the corpus was asked for de → en"):
        read_texts(evaluation(tmp_path), run_in(tmp_path), ("fr", "en"), [("de", "en")])


def test_a_file_named_as_something_else_in_the_results_has_another_name_there(tmp_path: Path) -> None:
    run_in(tmp_path)
    for language in ("de", "en"):
        (tmp_path / f"x.{language}").rename(tmp_path / f"sentences.{language}")
    own = {"source": str(tmp_path / "sentences.de"), "reference": str(tmp_path / "sentences.en")}
    back = read_texts(evaluation(tmp_path, **own), tmp_path, ("en", "de"), [("de", "en"), ("en", "de")])
    assert back.name == "sentences.en-de"
    assert read_texts(evaluation(tmp_path, **own), tmp_path, ("de", "en"), [("de", "en")]).name == "other.sentences"


def test_scores_of_other_sentences_by_the_same_name_are_shown_before_they_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    scores = score(["a"], ["a"], "en", ["chrf"])
    for reference in ("a", "a", "b"):
        assert not caplog.text
        write_evaluation(evaluation(tmp_path), Texts("own", ["a"], [reference]), ["a"], scores, "0" * 64, 1.0)
    assert "the scores {'chrf': 100.0} of own were of other sentences: replaced" in caplog.text


def test_splits_that_are_evaluated_at_once_are_all_kept(tmp_path: Path) -> None:
    names = [f"split{number}" for number in range(8)]
    scores, together = score(["a"], ["a"], "en", ["bleu"]), threading.Barrier(len(names))

    def write(name: str) -> None:
        together.wait()
        write_evaluation(evaluation(tmp_path), Texts(name, ["a"], ["a"]), ["a"], scores, "0" * 64, 1.0)

    threads = [threading.Thread(target=write, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))["seconds"]) == names
