"""Sentences that a page offers: found by measuring, with the numbers that the page itself computes."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import Chromium
from tests.cases import others_long
from tests.tools.page.models import TEXTS, untrained
from tests.tools.page.opened import Opened
from transformer import Translator
from transformer.data.languages import looks_like
from transformer.data.tokenizer import Kind
from transformer.inference.settings import SearchSettings
from transformer.tools.page.examples import Head, find_examples, heads_of, mean_probabilities, shuffled
from transformer.tools.page.export import build, rounded

SENTENCES = [*TEXTS, "der Hund läuft in den Park", "ein kleiner Park", "wir gehen schnell", "die Sonne, der Hund"]
GREEDY = SearchSettings(method="greedy")
MODIFY: dict[str, dict[str, Any]] = {
    **{name: {name: False} for name in ("positions", "scale", "causal", "cross")},
    "padding": {"padding": 4},
    "shuffle": {"shuffle": 1},
}
VARIANTS: dict[str, dict[str, object]] = {
    "as the presets": {},
    "rotary, post": {"positions": "rotary", "norm": "post"},
    "alibi": {"positions": "alibi"},
    "learned": {"positions": "learned"},
}


def opened_page(browser: Chromium, path: Path, translator: Translator, **page: Any) -> Opened:
    path.write_text(build(translator, "float16", TEXTS[3], **page), encoding="utf-8")
    opened = Opened(browser, path, viewport={"width": 1100, "height": 900})
    opened.piece("target", 1).wait_for()
    return opened


def mean_of(found: dict[str, Any]) -> float:
    best = found["hypotheses"][0]
    return math.exp(best["log_probability"] / best["length"])


def targets_of(translator: Translator, texts: list[str]) -> list[list[int]]:
    found = translator.n_best_ids(translator.source_tokenizer.encode_all(texts), GREEDY)
    return [translator.target_tokenizer.ids(best.pieces) for [best] in found]


def beginnings(translator: Translator, texts: list[str]) -> list[list[int]]:
    return [ids[: 3 + number] for number, ids in enumerate(targets_of(translator, texts))]


@pytest.mark.parametrize("variant", others_long([*VARIANTS], short=1))
def test_a_translation_is_as_probable_without_a_part_as_on_the_page(
    browser: Chromium, tmp_path: Path, variant: str
) -> None:
    translator = untrained(TEXTS, **VARIANTS[variant])
    opened = opened_page(browser, tmp_path / "page.html", translator)
    page_translator = rounded(translator, "float16")
    text, [target] = TEXTS[3], beginnings(page_translator, [TEXTS[3]])
    head = Head("cross", 1, 1)
    assert head in heads_of(translator.model)
    for part, modify in [(None, {}), *MODIFY.items(), (head, {"heads": [head._asdict()]})]:
        options = {"modify": modify, "prefix": [*target, 3]}
        found = opened.page.evaluate("([text, options]) => translator.explain(text, options)", [text, options])
        [expected] = mean_probabilities(page_translator, [text], [target], part)  # type: ignore[arg-type]
        assert mean_of(found) == pytest.approx(expected, rel=1e-4), part
        assert found["text"] == (shuffled(text) if part == "shuffle" else text)
    assert opened.errors == []
    opened.close()


def test_several_sentences_are_measured_as_each_is_alone(translator: Translator) -> None:
    targets = beginnings(translator, SENTENCES)
    for part in (None, *MODIFY, Head("encoder", 0, 0)):
        together = mean_probabilities(translator, SENTENCES, targets, part)
        alone = [
            mean_probabilities(translator, [one], [ids], part)[0] for one, ids in zip(SENTENCES, targets, strict=True)
        ]
        assert together == pytest.approx(alone, rel=1e-4), part


def test_the_five_examples_are_single_sentences_from_short_to_long(translator: Translator) -> None:
    unsuitable = ["", "1984", "Ein Haus. Ein Hund.", "ein Haus " * 40, "ein 家"]
    found = find_examples(translator, [*unsuitable, *SENTENCES, *SENTENCES])
    assert len(found["examples"]) == 5
    assert {*found["examples"]} <= {*SENTENCES}
    assert [*map(len, found["examples"])] == sorted(map(len, found["examples"]))
    assert find_examples(translator, SENTENCES[:2])["examples"] == sorted(SENTENCES[:2], key=len)
    assert find_examples(translator, unsuitable) == {}


def test_a_switch_has_the_sentence_that_loses_most(translator: Translator) -> None:
    found = find_examples(translator, SENTENCES)["what_if"]
    assert {*found} <= {*MODIFY, "heads"}
    assert {"cross", "heads"} <= {*found}
    for name, one in found.items():
        part = Head(**one["head"]) if "head" in one else name
        targets = targets_of(translator, [one["text"]])
        before, after = (mean_probabilities(translator, [one["text"]], targets, which)[0] for which in (None, part))
        assert after < before


def test_without_cross_attention_no_sentence_is_for_it(without_cross: Translator) -> None:
    assert "cross" not in find_examples(without_cross, SENTENCES)["what_if"]


def test_a_page_without_sentences_and_title_holds_none(translator: Translator) -> None:
    [opening] = re.findall(r'id="opening">(.*?)</script>', build(translator, "float16", "ja", "a run"))
    assert json.loads(opening) == {"text": "ja", "name": "a run"}


# What the page makes of them.


def verdict(opened: Opened) -> str:
    return opened.page.locator("#verdict").inner_text()


def wait_for_switch(opened: Opened, text: str) -> None:
    opened.page.wait_for_function(
        """text => document.querySelector('#before-source').textContent === text
          && document.querySelector('#verdict').textContent.includes('→')""",
        arg=text,
    )


@pytest.mark.long
def test_a_click_shows_where_a_switch_matters_with_the_numbers_of_python(
    browser: Chromium, translator: Translator, tmp_path: Path
) -> None:
    opened = opened_page(browser, tmp_path / "page.html", translator, sentences=SENTENCES)
    offers = find_examples(page_translator := rounded(translator, "float16"), SENTENCES)["what_if"]
    opened.page.locator("#tab-what-if").click()
    opened.page.locator("#switches input").first.wait_for()
    names = ["positions", "scale", "causal", "cross", "padding", "shuffle"]
    for name in [name for name in names if name in offers]:
        opened.page.locator("#all-on").click()
        opened.page.locator("#switches input").nth(names.index(name)).check()
        opened.page.locator("#where button").click()
        text = offers[name]["text"]
        wait_for_switch(opened, text)
        assert opened.page.locator("#input").input_value() == text
        assert opened.page.locator("#switches input:checked").count() == 1
        found = opened.page.evaluate("text => translator.explain(text)", text)
        target = [found["target_ids"][1:-1]]
        shares = (mean_probabilities(page_translator, [text], target, part)[0] for part in (None, name))
        assert [float(one) for one in re.findall(r"([\d.]+)%", verdict(opened))] == pytest.approx(
            [100 * share for share in shares], abs=0.051
        )
    opened.page.locator("#where-head").click()
    wait_for_switch(opened, offers["heads"]["text"])
    head = offers["heads"]["head"]
    label = f"[aria-label$='layer {head['layer'] + 1}, head {head['head'] + 1}']:not(:checked)"
    opened.page.locator(label).wait_for()
    assert opened.page.locator("#parts input:not(:checked)").count() == 1
    assert opened.errors == []
    opened.close()


@pytest.mark.long
def test_the_verdict_names_the_words_that_change(browser: Chromium, translator: Translator, tmp_path: Path) -> None:
    opened = opened_page(browser, tmp_path / "page.html", translator)
    opened.page.locator("#tab-what-if").click()
    opened.page.locator("#switches input").nth(3).check()
    wait_for_switch(opened, TEXTS[3])
    letters = str.maketrans("", "", "▁ ")  # an untrained model writes marks of spaces alone
    before, after = (
        opened.page.locator(f"#{side}-text").inner_text().translate(letters) for side in ("before", "after")
    )
    assert before != after
    changes = verdict(opened).removeprefix("Changed: ").split(". The mean")[0]
    for change in changes.split("; "):
        gone, added = [*re.findall("“(.*?)”", change), ""][:2]
        if change.endswith(" is new"):
            gone, added = "", gone
        assert gone.translate(letters) in before
        assert added.translate(letters) in after
    assert not opened.page.locator("#where button").count()
    opened.close()


@pytest.mark.long
def test_an_example_is_translated_at_a_click_and_the_title_is_the_one_given(
    browser: Chromium, translator: Translator, tmp_path: Path
) -> None:
    opened = opened_page(browser, tmp_path / "page.html", translator, title="<b>Unser Modell</b>", sentences=SENTENCES)
    examples = find_examples(rounded(translator, "float16"), SENTENCES)["examples"]
    assert opened.page.locator("#examples button").all_inner_texts() == examples
    opened.page.locator("#examples button").nth(2).click()
    opened.page.wait_for_function(
        "text => document.querySelector('#source-words').textContent === text", arg=examples[2].replace(" ", "")
    )
    opened.choose("language", "zh")
    assert opened.page.title() == opened.page.locator("h1").inner_text() == "<b>Unser Modell</b>"
    pieces = sum(1 for id in range(len(translator.source_tokenizer)) if id > 3)
    assert str(pieces) in opened.page.locator("#vocabulary").inner_text()
    opened.close()


UNKNOWN = "text => translator.explain(text).then(found => found.sentences.flatMap(one => one.unknown))"


@pytest.mark.parametrize("kind", others_long(["bpe", "word", "char", "unigram"], short=1))
def test_what_the_vocabulary_lacks_is_named_as_in_the_terminal(browser: Chromium, tmp_path: Path, kind: Kind) -> None:
    translator = untrained(TEXTS, kind)
    opened = opened_page(browser, tmp_path / "page.html", translator)
    for text in ("ein Haus", "ein ЖÖ ж家 Ж, ja Ж", "Q ein Hund%Q läuft", "家 家 日"):
        assert opened.page.evaluate(UNKNOWN, text) == translator.source_tokenizer.unknown(text)
    opened.page.locator("#input").fill("ein Ж")
    opened.page.wait_for_function("() => document.querySelector('#notice').textContent")
    assert "Ж" in opened.page.locator("#notice").inner_text()
    opened.close()


@pytest.mark.long
def test_a_text_in_another_script_is_noticed_as_in_the_terminal(
    browser: Chromium, translator: Translator, tmp_path: Path
) -> None:
    texts = [
        "Привет, как дела?",
        "今天天气很好",
        "Grüße an αβγδ",
        "ein Haus",
        "你好",
        "ЖЖ",
        "Αθήνα ist schön",
        "한국어",
    ]
    translator = untrained(TEXTS)
    for language in ("de", "ru", "zh", "ja", "ko", "el"):
        translator = Translator(translator.model, translator.tokenizers, (language, "en"))
        opened = opened_page(browser, tmp_path / "page.html", translator)
        for text in texts:
            opened.page.locator("#input").fill(text)
            opened.page.wait_for_function("text => document.title.startsWith(text)", arg=text)
            noticed = "not written in the letters" in opened.page.locator("#notice").inner_text()
            assert noticed == ((looks_like([text], language) or "").endswith(" script")), (language, text)
        opened.close()


@pytest.mark.long
def test_a_damaged_page_says_so_in_the_language_that_is_chosen(
    browser: Chromium, translator: Translator, tmp_path: Path
) -> None:
    html = build(translator, "float16", "ja")
    damaged = re.sub('(id="weights">)....', r"\1AAAA", html)
    (tmp_path / "page.html").write_text(damaged, encoding="utf-8")
    opened = Opened(browser, tmp_path / "page.html")
    opened.page.wait_for_function("() => document.querySelector('#status')?.textContent.includes('its weights')")
    opened.choose("language", "zh")
    assert "权重" in opened.page.locator("#status").inner_text()
    opened.close()
