"""The checks. Each is a small function that says whether the source and the target of a pair have a fault."""

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

from transformer.data.languages import script, scripts, weighted
from transformer.data.leakage import HeldOut
from transformer.data.splitting import hash64
from transformer.data.text_files import is_heading
from transformer.data.words import Line, letters, words
from transformer.tools.doctor.profile import Profile, log_ratio

Sides = tuple[bool, bool]
NEITHER, BOTH = (False, False), (True, True)
# A target is faulty if it is longer or shorter by this factor, in characters, than is usual in this corpus.
MAX_RATIO = 3.0
# A text with fewer letters, or fewer words, may be a name or a formula.
MIN_LETTERS, MIN_WORDS = 20, 5
# A text is in the wrong language if it is more likely in the other one by this much, in nats per trigram.
MIN_LOG_LIKELIHOOD_RATIO = 0.5
# Characters that no keyboard writes: control characters, U+FFFD (for unreadable ones), private use.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff\U000f0000-\U0010fffd]")
# Bytes of UTF-8 that were read as Latin-1 or Windows-1252: "fÃ¼r", "itâ€™s". (Not before a closing ’ or ”: "AMANHÃ”".)
WRONG_ENCODING = re.compile("[ÂÃ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘•–—˜™š›œžŸ]|â€[\x80-\xbf™œžŸ“˜]")
# Soft hyphens, zero-width spaces, direction marks. (Not joiners, U+200C and U+200D: some languages need them.)
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


@dataclass
class Context:
    """The data that checks compare a pair with: the profiles of `train` and of the pair's `split`, the `held_out`
    sentences of source and target, the numbers of training lines that are `too_long`, the `languages`, and the pairs
    already `seen`."""

    train: Profile
    split: Profile
    held_out: tuple[HeldOut, HeldOut]
    too_long: set[int]
    languages: tuple[str, str]
    seen: set[int] = field(default_factory=set)


def too_long(line: Line, context: Context) -> Sides:
    return BOTH if line.number in context.too_long else NEITHER


def _each(line: Line, has_fault: Callable[[str], object]) -> Sides:
    return bool(has_fault(line.text[0])), bool(has_fault(line.text[1]))


def edge_spaces(line: Line, context: Context) -> Sides:
    source, target = (text.removesuffix("\r") for text in line.raw)
    return source != line.text[0], target != line.text[1]


def carriage_returns(line: Line, context: Context) -> Sides:
    return line.raw[0].endswith("\r"), line.raw[1].endswith("\r")


def empty(line: Line, context: Context) -> Sides:
    return _each(line, lambda text: not text)


def heading(line: Line, context: Context) -> Sides:
    return BOTH if is_heading(line.text, context.languages) else NEITHER


def duplicate(line: Line, context: Context) -> Sides:
    """The same pair again; the first one is not a duplicate."""
    pair = hash64(*line.text)
    if pair not in context.split.repeated or not all(line.text):
        return NEITHER
    if pair in context.seen:
        return BOTH
    context.seen.add(pair)
    return NEITHER


def several_translations(line: Line, context: Context) -> Sides:
    """A source sentence that occurs more than once, in pairs that are not duplicates."""
    if hash64(line.text[0]) not in context.split.repeated_sources or hash64(*line.text) in context.split.repeated:
        return NEITHER
    return BOTH if all(line.text) else NEITHER


def length_ratio(line: Line, context: Context) -> Sides:
    far = abs(log_ratio(line) - context.train.median) > math.log(MAX_RATIO)
    return BOTH if far and all(line.text) else NEITHER


def copied(line: Line, context: Context) -> Sides:
    """The same words on both sides; short texts are ignored, because they may be names."""
    source, target = line.text
    return BOTH if letters(source) >= MIN_LETTERS and words(source) == words(target) else NEITHER


def wrong_script(line: Line, context: Context) -> Sides:
    """Most letters have a script that is foreign to this side. Names, which the other side has too, do not count."""

    def foreign(text: str, side: int) -> bool:
        counts = weighted(scripts(text))
        native = sum(counts[name] for name in context.train.scripts[side])
        return counts.total() >= MIN_LETTERS // 2 and native < counts.total() / 2

    def without_names(side: int) -> str:
        runs = ("".join(run) for _, run in groupby(line.text[side], lambda one: one.isalpha() and script(one)))
        return "".join(run for run in runs if run not in line.text[1 - side])

    source, target = (foreign(text, side) and foreign(without_names(side), side) for side, text in enumerate(line.text))
    return source, target


def wrong_language(line: Line, context: Context) -> Sides:
    """A source that looks like the target language, or a target like the source language. Other languages are not
    noticed."""
    source, target = (
        sign * context.train.log_likelihood_ratio(text) > MIN_LOG_LIKELIHOOD_RATIO
        and letters(text) >= MIN_LETTERS
        and len(words(text)) >= MIN_WORDS
        for sign, text in zip((-1, 1), line.text, strict=True)
    )
    # A copied sentence has one language on both sides, but this fault has its own check.
    return (source, target) if copied(line, context) == NEITHER else NEITHER


def unprintable(line: Line, context: Context) -> Sides:
    return _each(line, UNPRINTABLE.search)


def wrong_encoding(line: Line, context: Context) -> Sides:
    return _each(line, WRONG_ENCODING.search)


def invisible(line: Line, context: Context) -> Sides:
    return _each(line, INVISIBLE.search)


def decomposed(line: Line, context: Context) -> Sides:
    return _each(line, lambda text: not unicodedata.is_normalized("NFC", text))


def mixed_quotes(line: Line, context: Context) -> Sides:
    rare = context.split.rare_quotes
    source, target = (not marks.isdisjoint(text) for text, marks in zip(line.text, rare, strict=True))
    return source, target


def _leaks(line: Line, context: Context, exact: bool) -> Sides:
    leaks = (index.leak(text) for index, text in zip(context.held_out, line.text, strict=True))
    source, target = (leak is not None and leak.exact == exact for leak in leaks)
    return source, target


def leaked(line: Line, context: Context) -> Sides:
    return _leaks(line, context, exact=True)


def nearly_leaked(line: Line, context: Context) -> Sides:
    return _leaks(line, context, exact=False)


@dataclass(frozen=True)
class Check:
    """A check with its name; `means` says why the fault matters. With `drops`, --fix leaves out pairs with this fault;
    with `train_only`, other splits are not checked."""

    name: str
    find: Callable[[Line, Context], Sides]
    means: str
    drops: bool = False
    train_only: bool = False


CHECKS = (
    Check("empty", empty, "a side without text: nothing can be learned from it", drops=True),
    Check("heading", heading, "names of columns, no pair: delete it, or name the columns by codes, as de and en", True),
    Check("too long", too_long, "over data.max_length tokens; training leaves them out", drops=True, train_only=True),
    Check("duplicate", duplicate, "the same pair again: it weighs more than others", drops=True),
    Check("in a held-out split", leaked, "a side is a held-out sentence: scores would be too high", True, True),
    Check("nearly held out", nearly_leaked, "most of a held-out sentence: scores would be too high", True, True),
    Check("copied source", copied, "not translated: teaches to copy", drops=True),
    Check("wrong language", wrong_language, "looks like the other side's language: swapped or not translated", True),
    Check("wrong script", wrong_script, "letters that are foreign to this side", drops=True),
    Check("length ratio", length_ratio, f"over {MAX_RATIO:g} times off the usual ratio: misaligned?", drops=True),
    Check("unprintable", unprintable, "control or replacement characters: damaged text", drops=True),
    Check("wrong encoding", wrong_encoding, "UTF-8 that was read as Latin-1: fÃ¼r for für", drops=True),
    Check("invisible", invisible, "soft hyphens, zero-width spaces, direction marks: scores see them, readers do not"),
    Check("edge spaces", edge_spaces, "removed on reading"),
    Check("carriage returns", carriage_returns, "Windows line ends: removed on reading"),
    Check("decomposed", decomposed, "not in Unicode's NFC: for scores another text, though it looks the same"),
    Check("mixed quotes", mixed_quotes, "quotation marks or apostrophes of the rarer style"),
    Check("several translations", several_translations, "a source with different targets: fine, if meant", False, True),
)
