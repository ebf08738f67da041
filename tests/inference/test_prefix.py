"""Translations that begin with a given text: with every search, one model or several, and the right scores."""

from dataclasses import replace

import pytest

from tests.tools.export.models import TEXTS, random_translator, small_tokenizer
from transformer import Translator
from transformer.config import SettingError
from transformer.inference.choosing import Chooser
from transformer.inference.ensemble import Ensemble
from transformer.inference.settings import ChoiceSettings
from transformer.inference.translator import BEAM

# The last one ends within a word, both as text and as pieces.
PREFIXES = ["der Park", " wir gehen,  ", "die Sonne sch"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return random_translator(small_tokenizer())


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_each_translation_begins_with_the_prefix_and_has_the_models_probability(
    translator: Translator, method: str
) -> None:
    both = Ensemble([translator, random_translator(small_tokenizer(), decoder__layers=1)])
    for prefix in PREFIXES:
        search = replace(BEAM, method=method, prefix=prefix)
        for model in (translator, both):
            for text, hypotheses in zip(TEXTS, model.n_best(TEXTS, search), strict=True):
                assert all(one.text.startswith(prefix.strip()) == bool(text) for one in hypotheses)
                ids = [model.target_tokenizer.ids(one.pieces) for one in hypotheses if text]
                source = [model.source_tokenizer.encode(text)] * len(ids)
                scored = [sum(values) for values in model.token_log_probabilities(source, ids)]
                assert [one.log_probability for one in hypotheses if text] == pytest.approx(scored, abs=1e-3)
        assert [one[0].text for one in translator.n_best(TEXTS, search)] == translator.translate(TEXTS, search)


def test_only_the_first_part_of_a_text_begins_with_the_prefix(translator: Translator) -> None:
    search = replace(BEAM, prefix="der Park")
    first, second = translator.translate("Ja.", search), translator.translate("Wir gehen in ein Haus.")
    lines = ["Ja. Wir gehen in ein Haus.", "", "12", "100. Wir gehen in ein Haus."]
    found = translator.translate(lines, search, split_lines="sentences")
    assert found == [f"{first} {second}", "", "12", f"100. {second}"]


def test_a_prefix_longer_than_the_limit_is_all_that_is_written(translator: Translator) -> None:
    for method in ("greedy", "beam"):
        search = replace(BEAM, method=method, prefix="wir gehen in den Park", max_length=3)
        [[best, *_]] = translator.n_best(["ja"], search)
        assert (best.text, best.is_cut) == ("wir gehen in den Park", True)


@pytest.mark.parametrize("choose", ["mbr", "rerank"])
@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_all_hypotheses_to_choose_from_begin_with_the_prefix(translator: Translator, choose: str, method: str) -> None:
    back = Translator(translator.model, translator.tokenizers, ("en", "de"))
    choice = ChoiceSettings(choose, samples=3, reverse="x" if choose == "rerank" else None)  # type: ignore[arg-type]
    chooser = Chooser(translator, choice, back if choose == "rerank" else None)
    search = replace(BEAM, method=method, prefix="der Park")
    for hypotheses in chooser.n_best(["ja", "ein Haus"], search):
        assert all(one.text.startswith("der Park") for one in hypotheses)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("der 猫", "^prefix has 猫, which this model cannot write"),
        ("ja " * 40, "^prefix has [0-9]+ tokens, more than the 31 of this model"),
        ("\ud800", "^prefix: half of a surrogate pair"),
    ],
)
def test_a_prefix_that_the_model_cannot_write_is_refused(translator: Translator, prefix: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        translator.translate(["ja"], replace(BEAM, prefix=prefix))
