"""The lines between the words of source and translation are the links that `inference.word_alignment` finds."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.browsers import Chromium
from tests.tools.page.models import SEARCH, TEXTS, untrained
from tests.tools.page.opened import Opened
from transformer import Translator
from transformer.data.tokenizer import Kind, Tokenizer
from transformer.data.words import WITHOUT_SPACES_PATTERN
from transformer.inference.alignment_head import AlignmentHead, default_head
from transformer.inference.word_alignment import TokenPair, _cross_attention, _links, align
from transformer.tools.page.explanation import explain, page
from transformer.tools.page.export import build

LINES = "[...document.querySelectorAll('#links line')].map(line => line.dataset.link.split('-').map(Number))"
WORDS = "side => [...document.querySelectorAll(`#${side}-words > span`)].map(word => word.firstChild.data)"


def sharp(kind: Kind, alignment: AlignmentHead | None, texts: list[str] = TEXTS) -> Translator:
    """An untrained translator whose cross-attention looks at few pieces: rounding the weights moves no link."""
    translator = untrained(texts, kind)
    with torch.no_grad():
        for layer in translator.model.decoder.layers:
            layer.cross_attention.query.weight.mul_(6)  # type: ignore[union-attr, operator]
    translator.alignment = alignment
    return translator


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "page.html"


@pytest.mark.parametrize(
    ("kind", "alignment"),
    [("bpe", None), ("bpe", AlignmentHead(2, 2, shifted=True)), ("word", AlignmentHead(3, None, shifted=False))],
)
def test_the_page_draws_the_links_between_the_words(
    browser: Chromium, path: Path, kind: Kind, alignment: AlignmentHead | None
) -> None:
    translator = sharp(kind, alignment)
    explanation = explain(translator, TEXTS[3], replace(SEARCH, method="sampling"))
    path.write_text(page(explanation), encoding="utf-8")
    opened = Opened(browser, path)
    head = alignment or default_head(translator.model.config)
    [[links]] = align(translator, [TEXTS[3]], [explanation["target"][1:-1]], [head])
    assert len({source for source, _ in links}) > 1
    assert [tuple(link) for link in opened.page.evaluate(LINES)] == links
    assert opened.page.evaluate(WORDS, "source") == TEXTS[3].split()
    assert opened.page.evaluate(WORDS, "target") == explanation["translation"].split()
    assert opened.errors == []
    opened.close()


def test_a_line_ends_at_both_words_and_is_read_out(browser: Chromium, path: Path) -> None:
    path.write_text(page(explain(sharp("bpe", None), TEXTS[3], replace(SEARCH, method="sampling"))), encoding="utf-8")
    opened = Opened(browser, path)
    found = opened.page.evaluate(
        """() => {
          const middle = word => word.offsetLeft + word.offsetWidth / 2;
          const [above, below] = ["source", "target"].map(side => document.getElementById(`${side}-words`).children);
          return [...document.querySelectorAll("#links line")].map((line, to) => {
            const from = above[line.dataset.link.split("-")[0]], read = below[to].querySelector(".read").textContent;
            const ends = ["x1", "x2"].map(name => Number(line.getAttribute(name)));
            return [read, `from “${from.textContent}”`, ends, [middle(from), middle(below[to])]];
          });
        }"""
    )
    assert len({word for _, word, *_ in found}) > 1
    for read, word, ends, middles in found:
        assert read == word
        assert ends == pytest.approx(middles)
    opened.close()


def piece_numbers(tokenizer: Tokenizer, pieces: list[str]) -> list[int]:
    """As `word_indices`, but in what is written without spaces each piece is a word; ▁ alone is none."""
    words, numbers, seen = tokenizer.word_indices(pieces), list[int](), dict[tuple[int, int], int]()
    texts = {word: "".join(piece for piece, one in zip(pieces, words, strict=True) if one == word) for word in words}
    for place, (piece, word) in enumerate(zip(pieces, words, strict=True)):
        in_pieces = bool(WITHOUT_SPACES_PATTERN.search(texts[word]))
        if word < 0 or (in_pieces and piece == "▁"):
            numbers.append(-1)
        else:
            numbers.append(seen.setdefault((word, place if in_pieces else -1), len(seen)))
    return numbers


def test_in_a_text_without_spaces_each_piece_has_a_line(browser: Chromium, path: Path) -> None:
    translator = sharp("bpe", None, [*TEXTS, "我们去公园", "他有一本书"])
    text = "我们去公园 der kleine Hund"
    explanation = explain(translator, text, replace(SEARCH, method="sampling"))
    path.write_text(page(explanation), encoding="utf-8")
    opened = Opened(browser, path)
    tokenizer, head = translator.source_tokenizer, default_head(translator.model.config)
    sides = [explanation["source"][:-1], explanation["target"][1:-1]]
    pair = TokenPair(*(of for side in sides for of in (tokenizer.ids(side), piece_numbers(tokenizer, side))))
    assert opened.page.evaluate(WORDS, "source")[-3:] == ["der", "kleine", "Hund"]
    assert len(opened.page.evaluate(WORDS, "source")) == max(pair.source_words) + 1 > 4
    links = _links(_cross_attention(translator, [pair])[0], head, pair)
    assert [tuple(link) for link in opened.page.evaluate(LINES)] == links
    assert opened.errors == []
    opened.close()


@pytest.mark.long
def test_the_lines_follow_what_is_typed(browser: Chromium, path: Path) -> None:
    translator = sharp("bpe", AlignmentHead(2, 1, shifted=False))
    (path).write_text(build(translator, "float16", TEXTS[0]), encoding="utf-8")
    opened = Opened(browser, path)
    opened.page.locator("#options").wait_for()
    opened.page.locator("#input").fill(TEXTS[1])
    opened.page.locator("#source-words", has_text="Hund").wait_for()
    found = opened.page.evaluate("text => translator.explain(text, { method: 'greedy' })", TEXTS[1])
    [[links]] = align(translator, [TEXTS[1]], [found["target"][1:-1]], [AlignmentHead(2, 1, shifted=False)])
    assert [tuple(link) for link in opened.page.evaluate(LINES)] == links
    assert opened.errors == []
    opened.close()


def test_without_cross_attention_there_are_no_lines(browser: Chromium, without_cross: Translator, path: Path) -> None:
    path.write_text(page(explain(without_cross, TEXTS[1], SEARCH)), encoding="utf-8")
    opened = Opened(browser, path)
    assert opened.page.locator("#alignment-part").is_hidden()
    opened.close()
