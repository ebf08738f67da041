"""A sentence in Hebrew runs from right to left in the page, and nothing around it changes its order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browsers import Chromium
from tests.tools.export.models import teach_to_repeat
from tests.tools.page.models import SEARCH, untrained
from tests.tools.page.opened import Opened, without_errors
from transformer import Translator
from transformer.tools.page.explanation import explain, page

TEXTS = ["ילדה כותבת מכתב", "ילד קורא ספר בבית", "המורה רואה את הכלב"]
# The right edges of all elements that a selector finds, as far as they stand in the first line.
EDGES = """selector => {
  const boxes = [...document.querySelectorAll(selector)].map(element => element.getBoundingClientRect());
  return boxes.filter(box => Math.abs(box.top - boxes[0].top) < 20).map(box => box.right);
}"""
# Where the characters of an element stand, each with its left edge, but for the letters of Hebrew and invisible marks.
CHARACTERS = """selector => {
  const nodes = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT), found = [];
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    [...node.data].forEach((character, at) => {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const box = range.getBoundingClientRect();
      if (box.width && !/[\\p{Script=Hebrew}▁]/u.test(character)) found.push([character, box.left]);
    });
  }
  return found;
}"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one = untrained(TEXTS, tags=["he", "en"])
    teach_to_repeat(one, 40, TEXTS)
    translator = Translator(one.model.eval(), one.tokenizers, ("he", "en"), [("he", "en"), ("en", "he")])
    explanation = explain(translator, TEXTS[0], SEARCH)
    assert (explanation["source"][0], explanation["target"][0]) == ("<2en>", "<s>")
    assert explanation["translation"] == TEXTS[0]
    path = tmp_path_factory.mktemp("right_to_left") / "page.html"
    path.write_text(page(explanation), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Chromium, path: Path) -> Iterator[Opened]:
    with without_errors(browser, path, width=1300) as opened:
        yield opened


def to_the_third_step(opened: Opened) -> None:
    for _ in range(2):
        opened.page.locator("#step-next").click()


def test_the_pieces_and_words_of_a_sentence_run_from_right_to_left(opened: Opened) -> None:
    rows = ["#source .piece", "#target .piece", "#source-words > span", "#target-words > span"]
    edges = {row: opened.page.evaluate(EDGES, row) for row in rows}
    opened.page.locator("#tab-stepwise").click()
    to_the_third_step(opened)
    edges["#so-far span"] = opened.page.evaluate(EDGES, "#so-far span")
    for row, found in edges.items():
        assert len(found) > 1, row
        assert found == sorted(found, reverse=True), row


def test_what_stands_around_a_piece_keeps_its_order(opened: Opened) -> None:
    texts = {"attention": "#readout-title", "stepwise": "#step-why", "search": "#steps tbody tr"}
    opened.piece("target", 2).click()
    for panel, selector in texts.items():
        opened.page.locator(f"#tab-{panel}").click()
        if panel == "stepwise":
            to_the_third_step(opened)
        characters = opened.page.evaluate(CHARACTERS, selector)
        assert any(character.isdecimal() for character, _ in characters), selector
        lefts = [left for _, left in characters]
        assert lefts == sorted(lefts), characters
