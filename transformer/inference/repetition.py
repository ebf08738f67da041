"""Recognizes a translation that repeats itself, or is empty: it is searched again, without repeats.

A model that is unsure may say one thing over and over until the length limit ends it (Holtzman et al. 2020).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from transformer.data.tokenizer import Kind
from transformer.inference.parts import Translation
from transformer.inference.settings import SearchSettings

# Of the pieces of a translation that is searched again, no sequence of so many comes twice.
NO_REPEAT, NO_REPEAT_OF_LETTERS = 3, 15
# A translation may say something so many times in a row, or so many times as often as its source says something.
MAX_TIMES = 3


def times_in_a_row(pieces: Sequence[str]) -> int:
    """How many times, at most, a sequence stands in a row: 3 in "no no no". One without a letter does not count, as in
    1000000."""
    times, has_letter = 1, [any(map(str.isalpha, piece)) for piece in pieces]
    for length in range(1, len(pieces) // 2 + 1):
        start = 0
        for is_same, run in groupby(first == second for first, second in zip(pieces, pieces[length:], strict=False)):
            count = sum(1 for _ in run)
            if is_same and any(has_letter[start : start + length]):
                times = max(times, 1 + count // length)
            start += count
    return times


def may_loop(found: Translation) -> bool:
    """Whether it is worth a closer look: for most translations it is not."""
    return found.is_cut or max(Counter(found.pieces).values(), default=0) > MAX_TIMES


def repeats(pieces: Sequence[str], n: int = NO_REPEAT) -> int:
    """How many sequences of n pieces have come before."""
    sequences = [tuple(pieces[start : start + n]) for start in range(len(pieces) - n + 1)]
    return len(sequences) - len(set(sequences))


def is_looping(source: Sequence[str], found: Translation) -> bool:
    """Whether a translation says something over and over that its source, in pieces, does not; or was cut at its limit
    and repeats more than its source does."""
    if found.is_cut and repeats(found.pieces) > repeats(source):
        return True
    times = times_in_a_row(found.pieces)
    return times > MAX_TIMES and times > MAX_TIMES * times_in_a_row(source)


def is_faulty(source: Sequence[str], found: Translation) -> bool:
    """Whether a translation is empty, unlike its source, or `is_looping`."""
    return not found.text or is_looping(source, found)


def without_repeats(search: SearchSettings, kind: Kind) -> SearchSettings:
    """The search for what came out faulty, written with a vocabulary of this kind."""
    n = NO_REPEAT_OF_LETTERS if kind == "char" else NO_REPEAT
    return replace(search, no_repeat=n, min_length=max(1, search.min_length))
