"""Cuts texts and HTML into pieces: some are translated, all others stay unchanged.

Translating must not change the meaning of markup in untrusted HTML. So HTML is only accepted if every browser reads the
same tags in it, all markup is returned unchanged, and a translation is written as text.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Format = Literal["text", "html"]


class Piece(NamedTuple):
    """A piece of a document; `translated`: it is a line or a sentence, without spaces around it."""

    text: str
    translated: bool


# HTML's tokens that its standard (https://html.spec.whatwg.org, 13.2.5) and every browser read in the same way.
SPACE = r"[ \t\n\f\r]"
VALUE = r"""(?:"[^"]*"|'[^']*'|[^ \t\n\f\r"'=<>`]+)"""
ATTRIBUTES = rf"""(?:{SPACE}+[^ \t\n\f\r"'<>/=]+(?:{SPACE}*={SPACE}*{VALUE})?)*"""
FLAGS = re.IGNORECASE | re.DOTALL | re.ASCII
MARKUP = re.compile(
    rf"<(?!plaintext)(?P<start>[a-z][a-z0-9:-]*)(?P<attributes>{ATTRIBUTES}){SPACE}*/?>"
    rf"|</(?P<end>[a-z][a-z0-9:-]*){SPACE}*>"
    r"|<!--(?!-?>)(?:(?!--!?>).)*-->"
    r"|<!doctype[^>]*>|<\?[^>]*>",
    FLAGS,
)
TEXT = re.compile(r"(?:[^<]|<(?![a-z!/?]))+", FLAGS)
ATTRIBUTE = re.compile(rf"""{SPACE}+([^ \t\n\f\r"'<>/=]+)(?:{SPACE}*={SPACE}*({VALUE}))?""", FLAGS)
NUMBER = re.compile("&#0*([0-9]+)")
LINE = re.compile(r"[^\n]*\n|[^\n]+")  # as in files: U+2028 and \x85 belong to the sentence
# Elements whose content is no markup, and elements whose content is no prose.
RAW = ("script", "style", "textarea", "xmp", "iframe", "noembed", "noframes", "noscript")
UNTRANSLATED = ("code", "pre", "kbd", "samp")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
# Within these, the elements of RAW contain markup.
FOREIGN = ("svg", "math")


def _unescape(text: str) -> str:
    """The text with characters in place of character references."""
    # Numbers are cut to eight digits, which is already no character (U+FFFD): Python cannot read thousands of digits.
    return html.unescape(NUMBER.sub(lambda found: f"&#{found[1][:8]}", text))


def _with_outer_spaces(whole: str, inner: str) -> Iterator[Piece]:
    """The text to translate, and the spaces before and after it."""
    end = len(whole.rstrip())
    start = min(end, len(whole) - len(whole.lstrip()))  # at most the end, if there are only spaces
    yield Piece(whole[:start], False)
    if inner:
        yield Piece(inner, True)
    yield Piece(whole[end:], False)


def escape(text: str) -> str:
    return html.escape(text, quote=False)


def _content(text: str, start: int, element: str) -> str:
    """The content of an element without markup in it."""
    if not (end := re.compile(rf"</{element}(?=[ \t\n\f\r/>])", FLAGS).search(text, start)):
        raise ValueError(f"HTML with a <{element}> that does not end")
    return text[start : end.start()]


def _is_untranslated(element: str, attributes: str) -> bool:
    """Whether an element must not be translated."""
    values = (
        _unescape(value.strip("\"'")) for name, value in ATTRIBUTE.findall(attributes) if name.lower() == "translate"
    )
    return element in UNTRANSLATED or next(values, "").lower() == "no"  # the first of two counts


def split_html(text: str) -> Iterator[Piece]:
    position, is_foreign = 0, False
    skipped, depth = "", 0  # an element that is not translated, and how deep it is nested in itself
    while position < len(text):
        if found := TEXT.match(text, position):
            prose = _unescape(found[0])
            inner = " ".join(prose.split())  # in HTML a line break is a space
            if skipped or not any(map(str.isalpha, inner)):
                yield Piece(found[0], False)
            else:
                yield from _with_outer_spaces(prose, inner)
        elif found := MARKUP.match(text, position):
            yield Piece(found[0], False)
            start, end = (found["start"] or "").lower(), (found["end"] or "").lower()
            is_foreign = is_foreign or start in FOREIGN
            if start in RAW or start == "title":
                content = _content(text, found.end(), start)
                if ("<" in content and start != "script") or "<!--" in content or (is_foreign and start in RAW):
                    raise ValueError(f"HTML in <{start}> that cannot be read in one way only")
                if start in RAW:
                    yield Piece(content, False)
                    position = found.end() + len(content)
                    continue
            if skipped:
                depth += (start == skipped) - (end == skipped)
                skipped = skipped if depth else ""
            elif start and start not in VOID and _is_untranslated(start, found["attributes"]):
                skipped, depth = start, 1
        else:
            raise ValueError(f"HTML that cannot be read in one way only, at character {position + 1}")
        position = found.end()
    if skipped:
        # Some end tags may be left out, and the end of such an element follows complicated rules.
        raise ValueError(f"HTML with a <{skipped}> that is not to be translated and does not end: close it")


def split_lines(text: str) -> Iterator[Piece]:
    for line in LINE.findall(text):
        yield from _with_outer_spaces(line, line.strip())


def split(text: str, kind: Format) -> list[Piece]:
    """The pieces of a text, line by line, or of HTML; ValueError for HTML that browsers may read in several ways."""
    return list(split_html(text) if kind == "html" else split_lines(text))


def join(pieces: Sequence[Piece], translations: Sequence[str], kind: Format) -> str:
    """The document with `translations` in place of the pieces to translate."""
    translated = iter(translations)
    write = escape if kind == "html" else str
    return "".join(write(next(translated)) if piece.translated else piece.text for piece in pieces)
