"""docs/demo.html: a current page, small, that translates everyday sentences as PyTorch does."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.browsers import Chromium
from tests.tools.export.pages import Opened, translator_in
from transformer.data.text_files import read_lines
from transformer.inference.translator import BEAM
from transformer.tools.page.export import with_current_program

PROJECT = Path(__file__).parents[3]
DEMO = PROJECT / "docs" / "demo.html"


def test_the_demo_is_the_page_of_today() -> None:
    html = DEMO.read_text(encoding="utf-8")
    assert with_current_program(html) == html, "the page has changed: python docs/demo.py writes docs/demo.html anew"


def test_the_demo_has_at_most_two_and_a_half_megabytes() -> None:
    assert DEMO.stat().st_size <= 2_500_000


GREETINGS = {
    "Guten Morgen!": "Good morning.",
    "Wie heißt du?": "What's your name?",
    "Wo ist der Bahnhof?": "Where's the station?",
}


@pytest.mark.long
@pytest.mark.parametrize(("method", "sentences"), [("greedy", 100), ("beam", 20)])
def test_the_demo_translates_as_pytorch_does_with_its_weights(browser: Chromium, method: str, sentences: int) -> None:
    translator = translator_in(DEMO.read_text(encoding="utf-8"))
    texts = [*GREETINGS, *islice(read_lines(PROJECT / "data" / "toy" / "test.de"), sentences)]
    page = Opened(browser.tab(), DEMO)
    found = page.ask(
        """async ([texts, method]) => {
          const found = [];
          for (const text of texts) {
            const { text: translation, pieces } = await window.translator.translate(text, { method });
            found.push([translation, pieces]);
          }
          return found;
        }""",
        texts,
        method,
    )
    page.close()
    assert [text for text, _ in found[: len(GREETINGS)]] == [*GREETINGS.values()]
    hypotheses = translator.n_best(texts, replace(BEAM, method=method))  # type: ignore[arg-type]
    same = sum(pieces == best.pieces for (_, pieces), (best, *_) in zip(found, hypotheses, strict=True))
    assert same >= 0.99 * len(texts)
