"""Texts and HTML come back unchanged except for their sentences, and a page cannot become harmful."""

import multiprocessing
from html.parser import HTMLParser
from pathlib import Path

import pytest

from transformer.data.text_files import read_lines
from transformer.tools.server.documents import Format, join, split


def shouted(text: str, kind: Format) -> str:
    """The text with every sentence in capitals, followed by harmful markup."""
    pieces = split(text, kind)
    return join(pieces, [piece.text.upper() for piece in pieces if piece.translated], kind)


@pytest.mark.parametrize(
    "text", ["", " ", "a\n", "a < b & c", "\n\n a b \r\n\tc\n \n", "x\u2028y\x85z", "\u00a0a\u3000"]
)
def test_lines_and_the_spaces_around_them_stay(text: str) -> None:
    assert shouted(text, "text") == text.upper()
    assert all(piece.text == piece.text.strip() for piece in split(text, "text") if piece.translated)


@pytest.mark.parametrize(
    ("page", "translated"),
    [
        ("<p>ein <b class='x'>Haus</b></p>", "<p>EIN <b class='x'>HAUS</b></p>"),
        ("<a title=\"ein > 'Haus'\" href=/x/>ja</a><br/>", "<a title=\"ein > 'Haus'\" href=/x/>JA</a><br/>"),
        ("Hund &amp; Katze &lt;b&gt; &ouml;&#33;", "HUND &amp; KATZE &lt;B&gt; Ö!"),
        (f"ja &#{'0' * 5000}228; &#{'9' * 5000}; &#10000000;", "JA Ä \ufffd \ufffd"),
        (f"<i translate='N&#{'0' * 5000}79;'>a</i> d", f"<i translate='N&#{'0' * 5000}79;'>a</i> D"),
        ("a < 'b' &lt script", "A &lt; 'B' &lt; SCRIPT"),
        ("<p>ein\n  Haus </p>\n", "<p>EIN HAUS </p>\n"),
        ("<!-- ein --><!DOCTYPE html><?xml x?>&nbsp;|&nbsp;", "<!-- ein --><!DOCTYPE html><?xml x?>&nbsp;|&nbsp;"),
        ("<td>12 &#37;</td> &ouml;", "<td>12 &#37;</td> Ö"),
        ("<\u017fcript>a", "&lt;SCRIPT&gt;A"),
        ("<script>if (a<b) 'ein'</script>ja", "<script>if (a<b) 'ein'</script>JA"),
        ("<style>p > b</style><title>ja &amp; nein</title>", "<style>p > b</style><title>JA &amp; NEIN</title>"),
        ("<svg><title>ja</title></svg>", "<svg><title>JA</title></svg>"),
        ("<code>a <i>b</i> <code>c</code> d</code> e", "<code>a <i>b</i> <code>c</code> d</code> E"),
        ("<pre>a</pre><kbd>b</kbd><samp>c</samp>d", "<pre>a</pre><kbd>b</kbd><samp>c</samp>D"),
        ("<i translate=no>a <i>b</i> c</i> d", "<i translate=no>a <i>b</i> c</i> D"),
        ("<i title=1 TRANSLATE = 'N&#111;'>a</i> d", "<i title=1 TRANSLATE = 'N&#111;'>a</i> D"),
        (
            "<i title='say translate=no'>a</i><i translate=none>b</i>",
            "<i title='say translate=no'>A</i><i translate=none>B</i>",
        ),
        ("<i translate='yes' translate='no'>a</i>", "<i translate='yes' translate='no'>A</i>"),
        ("<img alt='ja'>ja<img translate='no'>ja", "<img alt='ja'>JA<img translate='no'>JA"),
    ],
)
def test_tags_stay_letter_by_letter_and_the_text_between_is_translated(page: str, translated: str) -> None:
    assert shouted(page, "html") == translated


# Different programs understand each of these differently.
HOSTILE = [
    "<!-- > <img src=x onerror=alert(1)>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!---><img src=x onerror=alert(1)>-->",
    "<!-- --!> <img src=x onerror=alert(1)> -->",
    "<a title='x><img src=x onerror=alert(1)>",
    "<a b'c>d'><img>",
    "<svg><style><a title='</style><img src=x onerror=alert(1)>'>",
    "<math><script>x</script>",
    "<style><!--</style><img>-->",
    "<textarea></div><script>alert(1)</script></textarea>",
    "<title><a title='</title><img>'>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<plaintext>a",
    "<script>",
    "<\u017fcript>a</\u017fcript>",
    "<script><!--<script></script><img>",
    "<script>a</script/><img></script>",
    "<script\x0b>a</script>",
    "<![CDATA[<img>]]>",
    "</ a><img>",
    "</a b='>'>",
    "<p",
]


@pytest.mark.parametrize("page", ["<ul><li translate=no>a<li>b</ul><p>c</p>", "<p translate=no>a<p>b", "<code>a"])
def test_what_is_not_translated_has_an_end(page: str) -> None:
    with pytest.raises(ValueError, match=r"is not to be translated and does not end: close it"):
        split(page, "html")


def test_lines_end_where_those_of_files_do(tmp_path: Path) -> None:
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\rg\r\nh\n\ni"
    (tmp_path / "text").write_bytes(text.encode())
    assert [piece.text for piece in split(text, "text") if piece.translated] == [
        *filter(None, read_lines(tmp_path / "text"))
    ]


@pytest.mark.parametrize("page", HOSTILE)
def test_html_that_can_be_read_in_two_ways_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="HTML"):
        split(page, "html")


class Tags(HTMLParser):
    """The markup of a page, as read by Python."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attributes))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)


def test_a_translation_full_of_markup_stays_text() -> None:
    page = "<p id='a'>ein</p>ein<!-- b --><i>ein</i>"
    pieces = split(page, "html")
    evil = "</p><script>alert('1')</script>--><img src=x onerror=\"alert(1)\">&lt;b&gt;"
    translated = join(pieces, [evil] * 3, "html")
    assert Tags(translated).found == Tags(page).found
    assert translated.count("&amp;lt;b&amp;gt;") == 3


def read(page: str) -> str:
    """A page after translating nothing in it, or the error's message."""
    try:
        return join(split(page, "html"), [], "html")
    except ValueError as error:
        return str(error)


def test_long_nonsense_takes_no_long_time() -> None:
    tags = ("<a " * 3000, "<a b='" * 2000, "<a" + " b" * 5000, "<a" + "  b" * 5000, "<a " + "b" * 9999, "<a b= " * 2000)
    spaces = " " * 10_000
    # A pattern with many possible matches would need hours or more for one of these: in a process that can be killed.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        read_pages = pool.map_async(read, [*tags, "<!--" * 2500, spaces]).get(timeout=60)
    assert read_pages == ["HTML that cannot be read in one way only, at character 1"] * 7 + [spaces]
