"""The card takes the license from the corpus' own settings, and warns where there is none to give on."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.factories import data_settings
from transformer.data.corpus import DataSettings
from transformer.training.card import license_id, terms

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
