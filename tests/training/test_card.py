"""The card takes the license from the corpus' own settings, and warns if there is none; it has the information that a
reader needs, and nothing private."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.factories import data_settings
from tests.reliability.runs import settings
from tests.training.small import module_for, numbers_data
from transformer.data.config import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.evaluation.evaluate import Evaluation
from transformer.evaluation.metrics import Scores
from transformer.run import Run
from transformer.training.card import license_id, terms, write_card
from transformer.training.results import write_results

CONFIGS = Path(__file__).parents[2] / "configs" / "data"


def corpus(license: str | None) -> DataSettings:
    return data_settings("data=toy", license=license)


@pytest.mark.parametrize(
    ("license", "written"),
    [
        ("Apache-2.0", "apache-2.0"),
        ("CC-BY-4.0", "cc-by-4.0"),
        ("none, for research and education", None),
        ("none", None),
        ("Unknown", None),
        (None, None),
    ],
)
def test_a_license_is_written_as_the_hub_does_and_a_remark_is_none(license: str | None, written: str | None) -> None:
    assert license_id(corpus(license)) == written


def test_the_card_says_what_the_license_means_for_the_weights() -> None:
    assert "so have the weights" in terms(corpus("MIT"))
    assert "may not be freely redistributable" in terms(corpus("none, for research and education"))
    assert "may not be freely redistributable" in terms(corpus("none"))
    assert "State it here before you publish" in terms(corpus(None))
    assert "State it here before you publish" in terms(corpus(""))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_corpus_of_the_project_states_its_license_and_home(path: Path) -> None:
    stated = OmegaConf.load(path)
    unknown = path.stem == "files"
    assert (stated.license is None) == (stated.home is None) == unknown
    if path.stem == "multi30k":
        assert license_id(corpus(stated.license)) is None


def card(folder: Path, data: TranslationData, results: dict[str, Any], **changes: Any) -> str:
    """The card of a run on this data with changed settings and results, with single spaces instead of line breaks."""
    plain = settings(folder, **changes) | {"metrics": ["bleu"]}
    plain["data"] |= {"directions": data.settings.directions}
    cost = {"peak MB": 1234.0, "ms/step": 12.5}
    evaluation = Evaluation(["eins", "zwei"], Scores({"bleu": 12.345}, {"bleu": "nrefs:1"}), None)
    write_results(Run(folder), dict.fromkeys(data.test_names, evaluation), {}, seconds=90.0, cost=cost)
    path = Run(folder).results
    path.write_text(json.dumps(json.loads(path.read_bytes()) | results), encoding="utf-8")
    write_card(Run(folder), module_for(data).translator, data, plain, "cpu: 1 thread")
    return " ".join(Run(folder).card.read_text(encoding="utf-8").split())


def test_a_card_counts_what_was_tested_and_how_long_it_took(data: TranslationData, tmp_path: Path) -> None:
    said = card(tmp_path, data, {"revision": "abc+"})
    assert "| split | sentences | BLEU | |---|---|---| | test | 2 | 12.3 |" in said
    assert "(revision abc with changes that are not committed)" in said
    assert "time: 1.5 minutes from the start, or the last resumption, through the test; 12.5 ms a step" in said
    assert f"has seen {len(data.split('train')):,} sentence pairs of one corpus, and no other kind of text. " in said
    assert "A text of more than 63 tokens is translated in parts" in said


def test_a_run_that_trained_no_step_has_a_card_without_its_speed(data: TranslationData, tmp_path: Path) -> None:
    said = card(tmp_path, data, {"cost": {"peak MB": 1234.0}, "revision": None})
    assert "through the test - memory: 1,234 MB at most" in said
    assert "(revision unknown)" in said


@pytest.mark.parametrize(("license", "is_shown"), [("MIT", True), ("none, for research", False), (None, False)])
def test_a_sentence_of_the_test_set_is_shown_only_under_an_open_license(
    data: TranslationData, tmp_path: Path, license: str | None, is_shown: bool
) -> None:
    data.settings = replace(data.settings, license=license)
    shortest = min((source for source, _ in data.text_pairs("test")), key=len)
    said = card(tmp_path, data, {})
    assert f"translate([{json.dumps(shortest if is_shown else '…', ensure_ascii=False)}])" in said
    assert ("license: mit" in said) == is_shown


def test_a_card_names_no_folder_and_shows_settings_as_they_are_typed(data: TranslationData, tmp_path: Path) -> None:
    paths = {"data__directory": f"{tmp_path}/x", "data__extra_tests": {"news": f"{tmp_path}/news"}}
    said = card(tmp_path, data, {}, **paths, data__synthetic=[f"{tmp_path}/synthetic"], search__length_penalty=None)
    assert str(tmp_path) not in said
    for setting in ("search.length_penalty=null", "data.source_language=de", "tokenizer.kind=word"):
        assert f" {setting} " in said


def test_a_model_that_began_with_another_is_not_given_the_license_of_its_corpus(
    data: TranslationData, tmp_path: Path
) -> None:
    data.settings = replace(data.settings, license="MIT")
    said = card(tmp_path, data, {}, init_from=str(tmp_path / "first"))
    assert "license: other" in said
    assert "Training began with the weights of another model" in said
    assert "but that of the model that training began with" in said
    assert " tokenizer." not in said, "they are the other model's"
    assert str(tmp_path) not in said


def test_the_card_of_two_directions_counts_their_pairs_once(tmp_path: Path) -> None:
    data = numbers_data(tmp_path, directions=["de-en", "en-de"])
    said = card(tmp_path, data, {})
    assert f"has seen {len(data.split('train')):,} sentence pairs" in said
    assert "translates de → en and, with `--source` and `--target`, en → de." in said
    assert "| test.en-de | 2 | 12.3 |" in said
    assert "`test` is of de → en, the first direction" in said
