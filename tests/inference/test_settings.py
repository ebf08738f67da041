"""How a translator is used: what of its settings goes together, and which of them decide what a translation is."""

from typing import Any

import pytest

from tests.factories import composed
from transformer.cli.settings import INFERENCE
from transformer.config import from_dict
from transformer.inference.settings import TranslateSettings


def settings(*overrides: str, **changes: Any) -> TranslateSettings:
    config = composed(*overrides, name="translate")
    inference = {key: config.pop(key) for key in INFERENCE}
    plain = {key: value for key, value in config.items() if key not in ("runs", "debug", "checkpoint")}
    return from_dict(TranslateSettings, plain | {"inference": inference, "resume": False} | changes, "")


@pytest.mark.parametrize(
    ("overrides", "changes", "said"),
    [
        (["search=greedy"], {"n_best": 2}, "n_best=2 must be 1 with search=greedy"),
        (["search=sampling"], {"n_best": 2}, "n_best=2 must be 1 with search=sampling"),
        (["search.beam=1"], {"n_best": 2}, "n_best=2 must be from 1 to search.beam=1"),
        (
            ["search=sampling", "choose=mbr", "choose.samples=3"],
            {"n_best": 4},
            "n_best=4 must be from 1 to choose.samples=3",
        ),
        (["search=greedy", "choose=mbr"], {}, "choose=mbr needs several hypotheses"),
        ([], {"text": "ja", "input": "x"}, "give either text= or input=, not both"),
        (["alignment.head=1"], {}, "alignment.head= and alignment.shifted= are of a layer"),
        (["alignment.shifted=true"], {}, "alignment.head= and alignment.shifted= are of a layer"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_by_name(
    overrides: list[str], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        settings(*overrides, **changes)


def test_as_many_hypotheses_as_the_beam_holds_may_be_written() -> None:
    assert settings("search.beam=3", n_best=3, split_lines="sentences").n_best == 3


def test_translations_and_alignments_may_go_to_one_stream() -> None:
    assert settings(output="/dev/stdout", alignments="/dev/stdout").alignments == "/dev/stdout"


def test_a_stopped_translation_may_go_on_elsewhere_but_not_with_another_search() -> None:
    deciding = settings().deciding()
    assert settings(text="ja", output="x", resume=True).deciding() == deciding
    assert settings("alignment.layer=1", input="x", alignments="y").deciding() == deciding
    assert settings("search.beam=3").deciding() != deciding
    assert settings(n_best=2).deciding() != deciding
    assert settings("choose=mbr").deciding() != deciding
    assert settings("source_language=de").deciding() != deciding
    assert settings(split_lines="sentences").deciding() != deciding
