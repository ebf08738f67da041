"""Cleans a text before it is segmented, so that the same letters are always written in the same way.

`Tokenizer.decode(tokenizer.encode(text))` is `clean(text)` if the vocabulary has all characters of the text. Changes
that depend on no neighbor are compiled into each SentencePiece model (`rules`), so that programs without this function
read nearly the same text; the page has the same function (tools/page/html/runtime/clean.js).
"""

import re
import sys
import unicodedata
from functools import cache
from typing import Literal

from transformer.data.languages import marks

# At most this number of marks in a row, as in Unicode's stream-safe form (UAX #15): normalization sorts them, which
# takes quadratic time.
MAX_MARKS = 30
SPACE_MARK, JOINER = "▁", "⁀"  # how SentencePiece writes a space, and tokenizer=word the lack of one
WRITTEN = str.maketrans({SPACE_MARK: "_", JOINER: "‿"})
# Invisible characters, as classes of regular expressions: those that never have a meaning in a sentence, and others.
MEANINGLESS = (
    "\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u17b4\u17b5\u180e\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0001"
)
ZERO_WIDTH_SPACE, NON_JOINER, ZERO_WIDTH_JOINER = "\u200b", "\u200c", "\u200d"
DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
VARIATIONS, IDEOGRAPHIC_VARIATIONS = "\ufe00-\ufe0f", "\U000e0100-\U000e01ef"
MONGOLIAN_VARIATIONS, TAGS = "\u180b-\u180d\u180f", "\U000e0020-\U000e007f"
INVISIBLE = re.compile(
    f"[{MEANINGLESS}{ZERO_WIDTH_SPACE}{NON_JOINER}{ZERO_WIDTH_JOINER}{DIRECTIONS}{VARIATIONS}{IDEOGRAPHIC_VARIATIONS}"
    f"{MONGOLIAN_VARIATIONS}{TAGS}]+"
)
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
# Blocks of scripts that mark the ends of words by a zero-width space (Thai, Lao, Tibetan, Burmese, Khmer), of scripts
# whose letters change their form beside a joiner (also Arabic, Syriac, N'Ko and the Indic scripts), and others.
UNSPACED = "\u0e00-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
JOINING = f"\u0600-\u07ff\u0860-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc{UNSPACED}"
MONGOLIAN, HAN = "\u1800-\u18af", "\u2e80-\u2fff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
BLACK_FLAG, KEYCAP = "🏴", "\u20e3"  # England's flag is 🏴 with tags; 1️⃣ is a digit with two marks


def _is_in(characters: str, one: str) -> bool:
    return re.match(f"[{characters}]", one) is not None


def _has_meaning(mark: str, before: str, after: str, is_right_to_left: bool) -> bool:
    """Whether an invisible character has a meaning between two visible ones ("" at an end of the text)."""
    kinds = [unicodedata.category(one)[0] if one else "" for one in (before, after)]
    if mark == NON_JOINER:
        return _is_in(JOINING, before)
    if mark == ZERO_WIDTH_JOINER:  # it also joins emoji
        return _is_in(JOINING, before) or kinds == ["S", "S"]
    if mark == ZERO_WIDTH_SPACE:
        return _is_in(UNSPACED, before)
    if _is_in(DIRECTIONS, mark):
        return is_right_to_left and not all(kind and kind in "LMN" for kind in kinds)  # not within a word
    if _is_in(VARIATIONS, mark):  # it chooses the form of a symbol
        return kinds[0] in ("S", "P") or after == KEYCAP
    if _is_in(IDEOGRAPHIC_VARIATIONS, mark):
        return _is_in(HAN, before)
    if _is_in(MONGOLIAN_VARIATIONS, mark):
        return _is_in(MONGOLIAN, before)
    return _is_in(TAGS, mark) and before == BLACK_FLAG


def _without_meaningless(text: str) -> str:
    is_right_to_left = bool(RIGHT_TO_LEFT.search(text))

    def kept(run: re.Match[str]) -> str:
        before, after = text[max(0, run.start() - 1) : run.start()], text[run.end() : run.end() + 1]
        return "".join(mark for mark in run[0][:MAX_MARKS] if _has_meaning(mark, before, after, is_right_to_left))

    return INVISIBLE.sub(kept, text)


@cache
def _long_runs() -> re.Pattern[str]:
    return re.compile(f"([{marks()}]{{{MAX_MARKS}}})[{marks()}]+")


def normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Unicode's normal form of a text, with at most 30 marks after a letter."""
    return text if text.isascii() else unicodedata.normalize(form, _long_runs().sub(r"\1", text))


def clean(text: str) -> str:
    """A text in Unicode's NFC, with single spaces, and without invisible characters that have no meaning at their
    place.

    These stay: a joiner in Persian, in Indic scripts and within an emoji; a mark of direction beside a word of a text
    with Hebrew or Arabic letters; a zero-width space in Thai, Lao, Khmer, Burmese and Tibetan; a variation selector
    after a symbol or a Chinese or Mongolian letter. A letter keeps at most 30 combining marks. The signs ▁ and ⁀, which
    mark spaces in pieces, become _ and ‿.
    """
    if INVISIBLE.search(text):
        text = _without_meaningless(text)
    return " ".join(normal_form("NFC", text).translate(WRITTEN).split())


@cache
def rules() -> dict[str, str]:
    """The changes of `clean` to single characters and to a letter with its marks, as rules for SentencePiece."""
    found = {SPACE_MARK: "_"}  # JOINER has its meaning there
    for character in map(chr, range(1, sys.maxunicode + 1)):
        if character.isspace():
            found[character] = " "
        elif _is_in(MEANINGLESS, character):
            found[character] = ""
        elif (parts := unicodedata.normalize("NFD", character)) != character:
            composed = unicodedata.normalize("NFC", character)
            # For ế also ê with one more mark.
            starts = (unicodedata.normalize("NFC", parts[:start]) + parts[start:] for start in range(1, len(parts)))
            found |= dict.fromkeys((character, *starts), composed)
    return {written: becomes for written, becomes in found.items() if written != becomes}
