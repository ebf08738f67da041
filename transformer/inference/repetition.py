"""Recognizes a translation that repeats itself or is empty: it is searched again, without repeats.

A model that is unsure may repeat the same words until the length limit (Holtzman et al. 2020).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from transformer.data.tokenizer import Kind
from transformer.inference.parts import Translation
from transformer.inference.settings import SearchSettings

# In the second search, no sequence of this number of pieces may come twice.
NO_REPEAT, NO_REPEAT_OF_LETTERS = 3, 15
# A translation may repeat a sequence n times in a row, or n times as often as its source repeats one, with this n.
MAX_TIMES = 3


def times_in_a_row(pieces: Sequence[str]) -> int:
    """The largest number of times that a sequence comes in a row: 3 in "no no no". Sequences without a letter, as in
    1000000, do not count."""
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
    """A fast check whether a translation may repeat itself: false for most of them."""
    return found.is_cut or max(Counter(found.pieces).values(), default=0) > MAX_TIMES


def repeats(pieces: Sequence[str], n: int = NO_REPEAT) -> int:
    """How many sequences of n pieces are repeats of an earlier one."""
    sequences = [tuple(pieces[start : start + n]) for start in range(len(pieces) - n + 1)]
    return len(sequences) - len(set(sequences))


def is_looping(source: Sequence[str], found: Translation) -> bool:
    """Whether a translation repeats something much more often in a row than its source (in pieces) does; or was cut at
    its length limit and has more repeats than its source."""
    if found.is_cut and repeats(found.pieces) > repeats(source):
        return True
    times = times_in_a_row(found.pieces)
    return times > MAX_TIMES and times > MAX_TIMES * times_in_a_row(source)


def is_faulty(source: Sequence[str], found: Translation) -> bool:
    """Whether a translation is empty or `is_looping`."""
    return not found.text or is_looping(source, found)


def without_repeats(search: SearchSettings, kind: Kind) -> SearchSettings:
    """The second search, for a faulty translation with a vocabulary of this kind."""
    n = NO_REPEAT_OF_LETTERS if kind == "char" else NO_REPEAT
    return replace(search, no_repeat=n, min_length=max(1, search.min_length))
