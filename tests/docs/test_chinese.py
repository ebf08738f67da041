"""The Chinese pages follow the English ones paragraph by paragraph: the same code, figures, pictures and links.

The tests run the code of the English pages.
"""

import re

import pytest
from markdown_it import MarkdownIt

from docs.mistakes.report import with_labels
from tests.pages import DOCS

PAGES = ("README.md", "docs/tour.md", "docs/mistakes.md")
BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
MEASURED = re.compile(r"<!-- measured: \w+ -->\n(.*?)\n<!-- end -->", re.DOTALL)


def both(name: str) -> tuple[str, str]:
    """A page in English and in Chinese."""
    english = DOCS.parent / name
    return english.read_text(encoding="utf-8"), english.with_suffix(".zh.md").read_text(encoding="utf-8")


def kept(paragraph: str) -> dict[str, object]:
    """The parts that are the same in both languages, in any order. Only the anchors of links, which are headings,
    differ."""
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", paragraph)]
    return {
        "level": len(paragraph) - len(paragraph.lstrip("#")),
        "figures": sorted(re.findall(r"\d[\d.,]*\d|\d", paragraph)),
        "code": {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", paragraph)},
        "links": sorted(link.replace(".zh.", ".") for link in links),
    }


@pytest.mark.parametrize("name", PAGES)
def test_the_chinese_page_has_the_same_code_and_printed_output(name: str) -> None:
    english, chinese = map(BLOCK.findall, both(name))
    assert chinese == english


@pytest.mark.parametrize("name", PAGES)
def test_each_chinese_paragraph_has_the_same_figures_code_pictures_and_links(name: str) -> None:
    english, chinese = (BLOCK.sub("", page).split("\n\n") for page in both(name))
    for ours, theirs in zip(english, chinese, strict=True):
        assert kept(theirs) == kept(ours), theirs


def test_the_chinese_tables_of_mistakes_have_the_same_measurements() -> None:
    english, chinese = map(MEASURED.findall, both("docs/mistakes.md"))
    for ours, theirs in zip(english, chinese, strict=True):
        assert with_labels(ours, theirs) == theirs


@pytest.mark.parametrize("name", PAGES)
def test_the_emphasis_of_a_chinese_page_is_emphasis_when_rendered(name: str) -> None:
    # Beside Chinese punctuation, ** often does not work in Markdown.
    inline = [token for token in MarkdownIt().enable("table").parse(both(name)[1]) if token.type == "inline"]
    texts = [part.content for token in inline for part in token.children or () if part.type == "text"]
    assert [text for text in texts if "*" in text] == []
