"""The checks: one small function each, from a pair of lines to whether its source and its target have the fault."""

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

from transformer.doctor.leakage import HeldOut
from transformer.doctor.profile import Profile, log_ratio
from transformer.doctor.text import Line, digest, letters, scripts, words

Sides = tuple[bool, bool]
NEITHER, BOTH = (False, False), (True, True)
# Times longer or shorter, by characters, than is usual in this corpus.
RATIO = 3.0
# A text of fewer letters, or fewer words, may be a name or a formula.
LETTERS, WORDS = 20, 5
# Nats a trigram towards the other language.
LEANING = 0.5
# What no keyboard writes: control characters, U+FFFD in place of what could not be read, private use.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff\U000f0000-\U0010fffd]")
# Soft hyphens, zero-width spaces, direction marks. (Joiners, U+200C and U+200D, belong to the spelling of some.)
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


@dataclass
class Seen:
    """What the checks know: the `profile` of training and the split's `own`, the sentences `held_out`, the lines of
    train that are `too_long` for it, and which repeated pairs they have met."""

    profile: Profile
    own: Profile
    held_out: HeldOut
    too_long: set[int]
    met: set[int] = field(default_factory=set)


def _each(line: Line, found: Callable[[str], object]) -> Sides:
    return bool(found(line.text[0])), bool(found(line.text[1]))


def edge_spaces(line: Line, seen: Seen) -> Sides:
    source, target = (text.removesuffix("\r") for text in line.raw)
    return source != line.text[0], target != line.text[1]


def carriage_returns(line: Line, seen: Seen) -> Sides:
    return line.raw[0].endswith("\r"), line.raw[1].endswith("\r")


def empty(line: Line, seen: Seen) -> Sides:
    return _each(line, lambda text: not text)


def too_long(line: Line, seen: Seen) -> Sides:
    return BOTH if line.number in seen.too_long else NEITHER


def duplicate(line: Line, seen: Seen) -> Sides:
    """The same pair again: the first is none."""
    own = digest(*line.text)
    if own not in seen.own.repeated or not all(line.text):
        return NEITHER
    if own in seen.met:
        return BOTH
    seen.met.add(own)
    return NEITHER


def several_translations(line: Line, seen: Seen) -> Sides:
    """A source sentence that comes more than once, in pairs that are no duplicates."""
    if digest(line.text[0]) not in seen.own.repeated_sources or digest(*line.text) in seen.own.repeated:
        return NEITHER
    return BOTH if all(line.text) else NEITHER


def length_ratio(line: Line, seen: Seen) -> Sides:
    far = abs(log_ratio(line) - seen.profile.median) > math.log(RATIO)
    return BOTH if far and all(line.text) else NEITHER


def copied(line: Line, seen: Seen) -> Sides:
    """The same words on both sides; short ones may be names."""
    source, target = line.text
    return BOTH if letters(source) >= LETTERS and words(source) == words(target) else NEITHER


def wrong_script(line: Line, seen: Seen) -> Sides:
    """Most letters of a script that is foreign to this side."""

    def foreign(side: int) -> bool:
        found = scripts(line.text[side])
        own = sum(found[name] for name in seen.profile.scripts[side])
        return found.total() >= LETTERS // 2 and own < found.total() / 2

    return foreign(0), foreign(1)


def wrong_language(line: Line, seen: Seen) -> Sides:
    """A source that looks like the target language, or the other way round. A third language is not noticed."""
    source, target = (
        sign * seen.profile.leaning(text) > LEANING and letters(text) >= LETTERS and len(words(text)) >= WORDS
        for sign, text in zip((-1, 1), line.text, strict=True)
    )
    # A copy leans one way on both sides, but is one fault.
    return (source, target) if copied(line, seen) == NEITHER else NEITHER


def unprintable(line: Line, seen: Seen) -> Sides:
    return _each(line, UNPRINTABLE.search)


def invisible(line: Line, seen: Seen) -> Sides:
    return _each(line, INVISIBLE.search)


def decomposed(line: Line, seen: Seen) -> Sides:
    return _each(line, lambda text: not unicodedata.is_normalized("NFC", text))


def mixed_quotes(line: Line, seen: Seen) -> Sides:
    rare = seen.own.rare_quotes
    source, target = (not marks.isdisjoint(text) for text, marks in zip(line.text, rare, strict=True))
    return source, target


def leaked(line: Line, seen: Seen) -> Sides:
    leak = seen.held_out.leak(line.text[0])
    return BOTH if leak is not None and leak.exact else NEITHER


def nearly_leaked(line: Line, seen: Seen) -> Sides:
    leak = seen.held_out.leak(line.text[0])
    return BOTH if leak is not None and not leak.exact else NEITHER


@dataclass(frozen=True)
class Check:
    """A check by name; `drops`: fix= leaves out the pairs that have the fault; `train_only`: it compares train with the
    other splits or with what training does; `means` says why it matters."""

    name: str
    find: Callable[[Line, Seen], Sides]
    means: str
    drops: bool = False
    train_only: bool = False


CHECKS = (
    Check("empty", empty, "training leaves them out", drops=True),
    Check("too long", too_long, "over data.max_length tokens; training leaves them out", drops=True, train_only=True),
    Check("duplicate", duplicate, "the same pair again: it weighs more than others", drops=True),
    Check("in a held-out split", leaked, "the source is a held-out sentence: scores would flatter", True, True),
    Check("nearly held out", nearly_leaked, "most of a held-out sentence: scores would flatter", True, True),
    Check("copied source", copied, "not translated: teaches to copy", drops=True),
    Check("wrong language", wrong_language, "looks like the other side's language: swapped or not translated", True),
    Check("wrong script", wrong_script, "letters that are foreign to this side", drops=True),
    Check("length ratio", length_ratio, f"over {RATIO:g} times off the usual ratio: misaligned?", drops=True),
    Check("unprintable", unprintable, "control or replacement characters: damaged text", drops=True),
    Check("invisible", invisible, "soft hyphens, zero-width spaces, direction marks: the tokenizer drops most"),
    Check("edge spaces", edge_spaces, "removed on reading"),
    Check("carriage returns", carriage_returns, "Windows line ends: removed on reading"),
    Check("decomposed", decomposed, "not in Unicode's NFC: ids are the same, scores of references are not"),
    Check("mixed quotes", mixed_quotes, "quotation marks or apostrophes of the rarer style"),
    Check("several translations", several_translations, "a source with different targets: fine, if meant", False, True),
)
