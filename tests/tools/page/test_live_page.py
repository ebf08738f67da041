"""The page that translates, as a reader uses it: type, force a piece, unfold an attention, switch parts off."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import Chromium, Firefox
from tests.tools.page.models import TEXTS, untrained
from tests.tools.page.opened import Opened
from tests.tools.server.models import english_and_french
from transformer import Translator
from transformer.tools.page.export import build

PANELS = ("attention", "stepwise", "search", "arithmetic", "what-if")


@pytest.fixture(scope="module")
def live_path(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "page.html"
    (path).write_text(build(translator, "float16", TEXTS[2], "a run/translator.safetensors"), encoding="utf-8")
    return path


@pytest.fixture
def live(browser: Chromium, live_path: Path) -> Iterator[Opened]:
    opened = Opened(browser, live_path, viewport={"width": 1100, "height": 900})
    opened.page.locator("#options").wait_for()
    opened.page.locator("#input").fill(TEXTS[0])
    opened.piece("target", 1).wait_for()
    yield opened
    assert opened.errors == []
    assert {url for url in opened.requests if not url.startswith("blob:")} == {live_path.as_uri()}
    opened.close()


def explained(live: Opened, text: str, **options: Any) -> dict[str, Any]:
    return live.page.evaluate("([text, options]) => translator.explain(text, options)", [text, options])


def in_tab(live: Opened, panel: str) -> None:
    live.page.locator(f"#tab-{panel}").click()
    assert live.page.locator(f"#panel-{panel}").is_visible()


def show_all(live: Opened, panel: str) -> None:
    """A panel that asks the translator is there when its answer is drawn."""
    in_tab(live, panel)
    if panel == "arithmetic":
        live.page.locator("#stages li").last.wait_for()
    if panel == "what-if":
        live.page.wait_for_function("() => document.querySelector('#after-text').textContent")


def test_the_page_opens_with_a_sentence_and_names_its_model(browser: Chromium, live_path: Path) -> None:
    opened = Opened(browser, live_path)
    opened.piece("target", 1).wait_for()
    assert opened.page.locator("#input").input_value() == TEXTS[2]
    assert "a run/translator.safetensors" in opened.page.locator("#model").inner_text()
    opened.close()


def test_the_translation_follows_what_is_typed(live: Opened) -> None:
    live.page.locator("#input").press_sequentially(", ja")
    expected = explained(live, TEXTS[0] + ", ja")
    live.page.wait_for_function(
        "count => document.querySelectorAll('#source .piece').length === count", arg=len(expected["source"])
    )
    assert live.page.locator("#target-text").inner_text() == expected["translation"]
    live.page.locator("#input").fill("")
    live.page.locator("#panels").wait_for(state="hidden")
    assert live.page.locator("#target-text").inner_text() == ""
    live.choose("language", "zh")  # what is drawn again is not the text before
    assert live.page.locator("#target-text").inner_text() == ""


def test_a_number_outside_its_limits_is_not_searched_with(live: Opened) -> None:
    live.choose("method", "beam")
    in_tab(live, "search")
    for typed, beam in (("500", 5), ("2.6", 3)):
        live.page.locator("#beam").fill(typed)
        live.page.wait_for_function(
            "count => document.querySelectorAll('#hypotheses tbody tr').length === count", arg=beam
        )


@pytest.mark.long
def test_of_several_sentences_all_are_translated_and_one_is_shown(live: Opened) -> None:
    choice = live.page.locator("#sentence-choice")
    assert not choice.is_visible()
    live.page.locator("#input").fill(f"{TEXTS[0]}. 5 {TEXTS[2]}!\n{TEXTS[3]}")
    choice.wait_for()
    assert choice.locator("label").all_inner_texts() == [f"{TEXTS[0]}.", f"5 {TEXTS[2]}!", TEXTS[3]]
    sentences = [explained(live, text) for text in (f"{TEXTS[0]}.", f"5 {TEXTS[2]}!", TEXTS[3])]
    first, second, third = (one["translation"] for one in sentences)
    for number, sentence in enumerate(sentences):
        live.choose("sentence-choice", str(number))
        live.page.wait_for_function("text => document.title.startsWith(text)", arg=sentence["text"])
        written = re.sub(" +", " ", f"{first} {second}\n{third}")  # as a browser shows an untrained model's spaces
        assert live.page.locator("#target-text").inner_text() == written
        assert live.page.locator("#source .piece").count() == len(sentence["source"])
        assert live.page.locator("#target .piece").count() == len(sentence["target"])
    live.page.locator("#input").fill(TEXTS[0])
    choice.wait_for(state="hidden")


@pytest.mark.long
def test_a_click_on_another_piece_forces_it_and_decoding_goes_on_from_there(live: Opened) -> None:
    before = explained(live, TEXTS[0])
    live.piece("target", 2).click()
    _, _, other = before["steps"][1]["next_best"][0]
    live.page.locator("#choices button").first.click()
    live.page.locator("#forced").wait_for()
    prefix = [before["target_ids"][1], other]
    forced = explained(live, TEXTS[0], prefix=prefix)
    assert forced["target_ids"][1:3] == prefix
    assert live.page.locator("#target-text").inner_text() == forced["translation"]
    live.page.locator("#unforce").click()
    live.page.locator("#forced").wait_for(state="hidden")
    assert live.page.locator("#target-text").inner_text() == before["translation"]


@pytest.mark.long
def test_the_beam_grows_as_a_tree_whose_nodes_can_be_forced(live: Opened) -> None:
    live.choose("method", "beam")
    in_tab(live, "search")
    beam = explained(live, TEXTS[0], method="beam", tree=True)
    live.page.locator("#columns .column").nth(len(beam["tree"])).wait_for()
    assert live.page.locator("#hypotheses tbody tr").count() == len(beam["hypotheses"]) == 5
    best = live.page.locator("#columns .node.best b").all_inner_texts()
    assert len(best) == len(beam["target"])
    live.page.locator("#columns .column").nth(1).locator("button").nth(1).click()
    live.page.locator("#forced").wait_for()
    forced = beam["tree"][0]["candidates"][1]["id"]
    assert (
        live.page.locator("#target-text").inner_text()
        == explained(live, TEXTS[0], method="beam", prefix=[forced])["translation"]
    )


@pytest.mark.long
def test_an_attention_unfolds_into_the_numbers_of_its_matrices(live: Opened) -> None:
    show_all(live, "arithmetic")
    trace = {"attention": "cross", "layer": 0, "head": 0}
    steps = {step["name"]: step for step in explained(live, TEXTS[0], trace=trace)["trace"]["steps"]}
    captions = live.page.locator("#stages figcaption").all_inner_texts()
    assert f"Q {' × '.join(map(str, steps['query']['shape']))}" in captions
    weights = live.page.locator("figure", has=live.page.locator("figcaption b", has_text=re.compile("^A$")))
    shown = weights.locator("output").inner_text()
    assert float(shown.split("= ")[1]) == pytest.approx(steps["weights"]["values"][0], abs=6e-4)
    weights.locator(".numbers").focus()
    live.page.keyboard.press("ArrowDown")
    live.page.keyboard.press("ArrowRight")
    at = steps["weights"]["shape"][1] + 1
    shown = weights.locator("output").inner_text()
    assert float(shown.split("= ")[1]) == pytest.approx(steps["weights"]["values"][at], abs=6e-4)
    chain = live.page.locator("#chain").inner_text()
    assert f"{steps['product']['values'][at]:.3f}".replace("-", "−") in chain


@pytest.mark.long
def test_the_equations_are_those_of_the_model(browser: Chromium, tmp_path: Path) -> None:
    concat = {"encoder__self_attention__score": "concat", "feed_forward__activation": "swiglu", "norm": "pre"}
    (tmp_path / "page.html").write_text(
        build(untrained(TEXTS, positions="alibi", **concat), "float16", TEXTS[0]), encoding="utf-8"
    )
    opened = Opened(browser, tmp_path / "page.html")
    opened.piece("target", 1).wait_for()
    show_all(opened, "arithmetic")
    opened.choose("unfold-attention", "encoder")
    opened.page.wait_for_function("() => document.querySelector('#stages').innerText.includes('w is multiplied')")
    shown = re.sub(r"\s", "", unicodedata.normalize("NFKC", opened.page.locator("#stages").inner_text()))
    for equation in (
        "x=dmodel⋅E",
        "Q=const",
        "Sij=w⋅[qi;kj]",
        "x+Sublayer(LayerNorm(x))",
        "(act(xG+bG)⊙(xW1+b1))W2+b2",
    ):
        assert equation in shown
    assert "PE" not in shown
    assert opened.errors == []
    opened.close()


@pytest.mark.long
def test_what_unfolds_is_the_translation_that_is_shown(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(build(english_and_french(), "float16", "ein Haus"), encoding="utf-8")
    opened = Opened(browser, tmp_path / "page.html")
    opened.page.locator("#direction").select_option("1")
    opened.choose("method", "sampling")
    opened.page.wait_for_function("() => document.querySelector('#source .piece')?.textContent.includes('2en')")
    in_tab(opened, "arithmetic")
    for attention, side, pieces in (("encoder", "source", 0), ("decoder", "target", -1)):
        opened.choose("unfold-attention", attention)
        count = opened.page.locator(f"#{side} .piece").count() + pieces  # no query is the end of the target
        opened.page.wait_for_function(
            "caption => [...document.querySelectorAll('#stages figcaption')].some(one => one.innerText === caption)",
            arg=f"A {count} × {count}",
        )
    assert opened.errors == []
    opened.close()


def test_a_part_switched_off_shows_both_translations_with_what_changed_marked(live: Opened) -> None:
    show_all(live, "what-if")
    assert live.page.locator("#panel-what-if mark").count() == 0
    live.page.locator("#switches label").first.click()  # positions
    without = explained(live, TEXTS[0], modify={"positions": False})
    live.page.locator("#after-text mark").first.wait_for()
    before = live.page.locator("#before-text").inner_text()
    assert before == live.page.locator("#target-text").inner_text()
    assert live.page.locator("#after-text").inner_text() == without["translation"] != before
    live.page.locator("#all-on").click()
    live.page.wait_for_function("() => !document.querySelector('#panel-what-if mark')")


@pytest.mark.long
def test_the_keyboard_walks_through_the_panels(live: Opened) -> None:
    live.page.locator("#tab-attention").focus()
    for panel in PANELS[1:]:
        live.page.keyboard.press("ArrowRight")
        assert live.page.locator(f"#panel-{panel}").is_visible()


@pytest.mark.long
def test_no_panel_has_a_violation_that_axe_core_finds(live: Opened) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    live.page.evaluate(Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    live.page.locator("#beam").evaluate("input => { input.value = 2; }")  # a small tree: axe-core looks at every node
    live.choose("method", "beam")
    for panel in PANELS:
        show_all(live, panel)
        violations = live.page.evaluate(
            "axe.run().then(found => found.violations.map(({ id, nodes }) => [id, nodes[0].html]))"
        )
        assert violations == [], panel


@pytest.mark.long
def test_a_phone_shows_every_panel_without_sideways_scrolling(browser: Chromium, live_path: Path) -> None:
    phone = Opened(browser, live_path, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    phone.page.locator("#options").wait_for()
    phone.page.locator("#input").fill(TEXTS[3])
    phone.piece("target", 1).wait_for()
    for panel in PANELS:
        show_all(phone, panel)
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360, panel
    phone.close()


@pytest.mark.long
def test_an_over_long_text_is_cut_and_the_page_says_where(live: Opened) -> None:
    live.page.locator("#input").fill("ja " * 100)
    live.page.wait_for_function("() => document.querySelector('#notice').textContent")
    cut = explained(live, "ja " * 100)["sentences"][0]["cut"]
    notice = live.page.locator("#notice").inner_text()
    assert str(cut["tokens"]) in notice
    assert str(cut["limit"]) in notice


def test_markup_that_is_typed_stays_text(live: Opened) -> None:
    live.page.locator("#input").fill('ein </script><script>document.title = "taken"</script> <b>Haus</b>')
    live.page.wait_for_function("() => document.title.includes('<b>')")
    assert live.page.locator("main script, main b b").count() == 0


def test_a_damaged_page_says_so(browser: Chromium, live_path: Path, tmp_path: Path) -> None:
    html = live_path.read_text(encoding="utf-8")
    damaged = tmp_path / "damaged.html"
    damaged.write_text(html[: -len(html) // 10], encoding="utf-8")
    opened = Opened(browser, damaged)
    opened.page.wait_for_function("() => document.querySelector('#status')?.textContent.includes('damaged')")
    assert not opened.page.locator("#options").is_visible()
    opened.close()


TEXT_OF = """async selector => {
  for (;;) {
    const found = document.querySelector(selector)?.textContent;
    if (found) return found;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}"""


@pytest.mark.long
def test_firefox_unfolds_an_attention_and_switches_a_part_off_too(firefox: Firefox, live_path: Path) -> None:
    click = "selector => document.querySelector(selector).click()"
    firefox.open(live_path)
    assert firefox.evaluate(TEXT_OF, "#target .piece")
    firefox.evaluate(click, "#tab-arithmetic")
    assert " = " in firefox.evaluate(TEXT_OF, "#stages li:last-child output")
    firefox.evaluate(click, "#tab-what-if")
    firefox.evaluate(click, "#switches input")
    assert firefox.evaluate(TEXT_OF, "#verdict")
    assert firefox.evaluate(TEXT_OF, "#after-text")
