"""A model's search limits come from its training pairs."""

from pathlib import Path

import pytest

from tests.data.corpora import settings, write
from tests.factories import tokenizer_settings
from tests.training.small import module_for
from transformer.data.datamodule import TranslationData
from transformer.inference.settings import Defaults, SearchSettings
from transformer.training.summary import limit_notes
from transformer.training.train import all_pairs, keep_letterless, needed_length_ratio


def corpus(folder: Path, lines: list[tuple[str, str]]) -> TranslationData:
    for language, side in zip(("de", "en"), zip(*lines, strict=True), strict=True):
        write(folder, f"x.{language}", list(side))
    splits = dict.fromkeys(("train", "validation", "test"), str(folder / "x"))
    return TranslationData(settings(folder, max_length=400, **splits), tokenizer_settings("char", 60), seed=1)


@pytest.mark.parametrize("times", [1, 3, 9])
def test_a_search_allows_what_the_training_pairs_need_and_a_quarter_more(tmp_path: Path, times: int) -> None:
    data = corpus(tmp_path, [("abcdefgh" * 3, "ijkl" * 6 * times)] * 200)
    source, target = data.split("train").lengths(0)
    needed = (target[0] - 20) / source[0]
    ratio = needed_length_ratio(data, 20)
    assert max(0, 1.25 * needed) <= ratio < max(0, 1.25 * needed) + 0.11
    translator = module_for(data).translator
    notes = limit_notes(data, SearchSettings().with_defaults(translator.defaults))
    assert bool(notes) == (target[0] > 2 * source[0] + 20)
    assert all("200 of 200 references are longer than search.length_ratio=2.0" in note for note in notes)
    translator.defaults = Defaults(length_ratio=max(2.0, ratio))
    assert not limit_notes(data, SearchSettings().with_defaults(translator.defaults))


def test_one_pair_of_a_thousand_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    pairs = [("abcdefgh", "ijkl")] * 2000
    assert needed_length_ratio(corpus(tmp_path, [*pairs, ("a", "ij" * 40)]), 0) < 1


def test_letterless_texts_are_kept_unless_most_pairs_change_them(tmp_path: Path) -> None:
    kept, changed, others = ("12", "12"), ("12", "zwölf"), ("ein Hund", "a dog")
    assert keep_letterless([others])
    assert keep_letterless([kept, changed, others])
    assert not keep_letterless([kept, changed, changed, others])
    assert not keep_letterless(all_pairs(corpus(tmp_path, [changed] * 3 + [others])))
