"""Filters that drop bad synthetic pairs before training: the doctor's checks, one pair at a time.

A text is checked before it is translated, and its translation afterwards. A corpus of real pairs shows what is usual,
and which sentences are held out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from transformer.config import Registry
from transformer.data.config import DataSettings
from transformer.data.leakage import index_held_out
from transformer.data.splitting import comparable, hash64
from transformer.data.synthetic import held_out_sentences
from transformer.data.tokenizer import LONG, Tokenizer
from transformer.data.words import Line, read_raw, words_with_numbers
from transformer.tools.doctor.checks import (
    NEITHER,
    Context,
    Sides,
    copied,
    empty,
    leaked,
    length_ratio,
    nearly_leaked,
    unprintable,
    wrong_encoding,
    wrong_language,
    wrong_script,
)
from transformer.tools.doctor.profile import Profile

# A phrase of at most MAX_PHRASE words, repeated more than MAX_TIMES times in a row, shows a search that repeats itself.
MAX_PHRASE, MAX_TIMES = 4, 3


@dataclass(kw_only=True)
class FilterContext(Context):
    """Also the `tokenizers` of the model, the largest number of tokens of a side, and the `comparable` form of the
    held-out sentences: validation and test are taken out, and training refuses pairs, by this form."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    max_length: int
    comparable: set[str]


def _too_long(line: Line, context: FilterContext) -> Sides:
    source, target = (
        len(text) > LONG or len(tokenizer.encode(text)) > context.max_length
        for text, tokenizer in zip(line.text, context.tokenizers, strict=True)
    )
    return source, target


def _duplicate(line: Line, context: FilterContext) -> Sides:
    """A text that has occurred before."""
    if (text := hash64(line.text[0])) in context.seen:
        return True, False
    context.seen.add(text)
    return NEITHER


def _held_out(line: Line, context: FilterContext) -> Sides:
    exact, near = leaked(line, context), nearly_leaked(line, context)
    source, target = (
        found or nearly or comparable(text) in context.comparable
        for found, nearly, text in zip(exact, near, line.text, strict=True)
    )
    return source, target


def _is_repetitive(text: str) -> bool:
    """Whether the same one to four words come more than three times in a row."""
    tokens = words_with_numbers(text)  # so that 192.168.0.1 repeats no word
    for length in range(1, MAX_PHRASE + 1):
        same = (tokens[i] == tokens[i + length] for i in range(len(tokens) - length))
        if any(is_same and sum(1 for _ in run) >= length * MAX_TIMES for is_same, run in groupby(same)):
            return True
    return False


def _repetition(line: Line, context: FilterContext) -> Sides:
    return _is_repetitive(line.text[0]), _is_repetitive(line.text[1])


@dataclass(frozen=True)
class Filter:
    """A function that says whether source and target have a fault, and what the fault `means`."""

    find: Callable[[Line, FilterContext], Sides]
    means: str


FILTERS: Registry[Filter] = Registry(
    empty=Filter(empty, "nothing to translate, or no translation"),
    too_long=Filter(_too_long, "more tokens than data.max_length, or over 10,000 characters"),
    duplicate=Filter(_duplicate, "the same text again"),
    held_out=Filter(_held_out, "a sentence of validation or test, or most of one: scores would be too high"),
    unprintable=Filter(unprintable, "control or replacement characters: damaged text"),
    wrong_encoding=Filter(wrong_encoding, "UTF-8 that was read as Latin-1: fÃ¼r for für"),
    wrong_script=Filter(wrong_script, "letters that are foreign to this language"),
    wrong_language=Filter(wrong_language, "looks like the other language"),
    repetition=Filter(_repetition, f"the same words more than {MAX_TIMES} times in a row"),
    copied=Filter(copied, "the translation has the same words as the text"),
    length_ratio=Filter(length_ratio, "much longer or shorter than the real pairs' translations"),
)


class PairFilter:
    """Finds the filter, among those in `names`, that drops a text or a pair."""

    def __init__(
        self,
        names: list[str],
        corpus: DataSettings,
        tokenizers: tuple[Tokenizer, Tokenizer],
        languages: tuple[str, str],
    ) -> None:
        """Reads the pairs of `corpus` in the direction `languages`; validation and test of all its directions are held
        out."""
        self.filters = {name: FILTERS[name] for name in names}
        indices = index_held_out(corpus.by_direction, languages)
        train = Profile(read_raw(corpus.in_direction(languages), "train"))
        self.context = FilterContext(
            train=train,
            split=train,
            held_out=indices,
            too_long=set(),
            languages=languages,
            tokenizers=tokenizers,
            max_length=corpus.max_length,
            comparable=set(held_out_sentences(corpus)),
        )

    def mark_seen(self, texts: Iterable[str]) -> Iterator[str]:
        """Passes on texts that an earlier, stopped command has already checked."""
        for text in texts:
            self.context.seen.add(hash64(text))
            yield text

    def check_text(self, number: int, text: str) -> str | None:
        """The filter that drops a text, before it is translated."""
        return self._first(Line(number, (text, ""), (text, "")), side=0)

    def check_pair(self, number: int, text: str, translation: str) -> str | None:
        """The filter that drops the translation of a text."""
        return self._first(Line(number, (text, translation), (text, translation)), side=1)

    def _first(self, line: Line, side: int) -> str | None:
        return next((name for name, one in self.filters.items() if one.find(line, self.context)[side]), None)
