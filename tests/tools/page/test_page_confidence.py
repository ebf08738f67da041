"""The words that the page underlines, and the numbers beside them, are those of `inference.confidence`."""

from pathlib import Path

import pytest

from tests.browsers import Chromium
from tests.tools.export.models import random_translator, small_tokenizer, teach_to_repeat
from tests.tools.page.opened import Opened
from transformer import Translator
from transformer.inference.confidence import with_words
from transformer.inference.parts import Word
from transformer.inference.settings import SearchSettings
from transformer.tools.page.explanation import explain, page
from transformer.tools.page.export import build, rounded

GREEDY = SearchSettings(method="greedy")
SENTENCES = ["die Sonne scheint!", "ein Haus, der Park."]
UNDERLINED = "[...document.querySelectorAll('#target-text u')].map(word => [word.textContent, word.title])"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}" if share >= 0.0005 else "<0.1%"


def unsure(translator: Translator, text: str) -> tuple[list[Word], list[Word]]:
    """The words of a translation with less than half, and all."""
    [translation] = with_words(translator, [text], translator.n_best(text, GREEDY))
    words = translation.words or []
    return [word for word in words if word.confidence < 0.5], words


@pytest.fixture(scope="module")
def translator() -> Translator:
    """One that is sure of some words."""
    translator = random_translator(small_tokenizer())
    teach_to_repeat(translator, steps=45)
    return translator


def test_words_of_low_confidence_are_underlined_and_named_with_their_number(
    browser: Chromium, translator: Translator, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(explain(translator, SENTENCES[0], GREEDY)), encoding="utf-8")
    words, every = unsure(translator, SENTENCES[0])
    assert 0 < len(words) < len(every)
    opened = Opened(browser, path, locale="en")
    for language, title in (("en", "probability by the model: {}"), ("zh", "模型给出的概率：{}")):
        opened.choose("language", language)
        assert opened.page.evaluate(UNDERLINED) == [
            [word.text, title.format(percent(word.confidence))] for word in words
        ]
        named = ", ".join(f"“{word.text}” {percent(word.confidence)}" for word in words)
        assert named in opened.page.locator("#unsure").inner_text()
    assert opened.page.locator("#target-text").inner_text() == " ".join(word.text for word in every)
    assert opened.errors == []
    opened.close()


@pytest.mark.long
def test_of_several_sentences_the_words_of_the_one_that_is_shown_are_underlined(
    browser: Chromium, translator: Translator, tmp_path: Path
) -> None:
    translator, path = rounded(translator, "float16"), tmp_path / "page.html"
    path.write_text(build(translator, "float16", "\n".join(SENTENCES)), encoding="utf-8")
    opened = Opened(browser, path)
    opened.page.locator("#sentence-choice").wait_for()
    opened.choose("method", "greedy")
    for number, sentence in enumerate(SENTENCES):
        opened.choose("sentence-choice", str(number))
        opened.page.wait_for_function("text => document.title.startsWith(text)", arg=sentence)
        words, _ = unsure(translator, sentence)
        assert [word for word, _ in opened.page.evaluate(UNDERLINED)] == [word.text for word in words]
    opened.page.locator("#input").fill("")
    opened.page.locator("#panels").wait_for(state="hidden")
    assert opened.page.locator("#unsure").is_hidden()
    assert opened.errors == []
    opened.close()
