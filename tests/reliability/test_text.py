"""Any text is translated line for line, with work and memory in proportion to its length, or refused by line number."""

import random
import re
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cases import others_long
from tests.reliability import report, trials
from tests.reliability.children import SHORT, ChildDiedError, in_child, small_translator, teach, translate
from transformer import Translator
from transformer.data.tokenizer import Kind

KINDS: list[Kind] = ["bpe", "unigram", "word", "char"]
# Controls, line ends of every kind, marks of direction, joiners, combining and private characters, special signs.
STRANGE = (
    "\0\t\n\v\f\r\x1b\x1c\x7f\x85\xa0\xad\u0301\u200b\u200d\u200e\u202e\u2028\u2029\u2066\u2581\ufdfa\ufeff\ufffd\uffff"
)
OTHERS = "⁀▁⁇ <s></s><pad><unk>.!?…。 aä猫한🙂👩‍👩‍👧‍👦שלוםمرحبا\ue000\U0010ffff"
texts = st.one_of(
    st.text(),
    st.text(st.sampled_from(STRANGE + OTHERS), max_size=200),
    st.text(" \t\u3000", max_size=50),
    st.builds(
        lambda text, times: text * times, st.text(st.sampled_from(STRANGE + OTHERS), max_size=6), st.integers(0, 300)
    ),
)


@cache
def translator(kind: Kind, byte_fallback: bool) -> Translator:
    return small_translator(kind, 350 if byte_fallback else 120, byte_fallback)


@pytest.mark.parametrize("kind", others_long(KINDS))
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_any_unicode_text_gives_one_line(kind: Kind, byte_fallback: bool) -> None:
    tried = 0

    @settings(max_examples=trials(5, 500), database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(texts, max_size=4))
    @example(["", "\0", "\n\n", "\u2028", STRANGE, OTHERS, STRANGE * 30, "▁", "⁀ ⁀.", "\U0010ffff" * 100])
    def holds(lines: list[str]) -> None:
        nonlocal tried
        tried += 1
        found = translator(kind, byte_fallback).translate(lines, SHORT)
        assert len(found) == len(lines)
        for line, translation in zip(lines, found, strict=True):
            assert type(translation) is str
            assert not re.search("[\r\n]", translation)
            translation.encode()
            assert line.strip() or not translation

    holds()
    report(f"any Unicode text is translated, tokenizer={kind}, byte_fallback={byte_fallback}", tried, [])


@given(st.text(st.characters(categories=["Cs"]), min_size=1), st.text(), st.text(), st.integers(0, 3))
@settings(max_examples=trials(30, 500), database=None, derandomize=True)
def test_halves_of_surrogate_pairs_are_refused_by_line(half: str, before: str, after: str, line: int) -> None:
    lines = ["ja"] * 4
    lines[line] = before + half + after
    with pytest.raises(ValueError, match=rf"^line {line + 7} is no Unicode text: half of a surrogate pair"):
        translator("bpe", False).n_best(lines, SHORT, line_numbers=range(7, 7 + len(lines)))


# 100,000 characters in full, 10,000 in short: both are longer than every model allows.
TIMES = trials(100, 1000)
LONG = {
    "one word": "x" * 100 * TIMES,
    "words": "ab " * 34 * TIMES,
    "sentences": "a. " * 34 * TIMES,
    "sentences without spaces": "。" * 99 * TIMES + "a b " * 250,
    "one sentence of unknown words": "猫 " * 50 * TIMES,
    "spaces": " " * 100 * TIMES,
    "line ends": "\n" * 100 * TIMES,
    "emoji": "🙂" * 100 * TIMES,
    "family": "👩‍👩‍👧‍👦" * 14 * TIMES,
    "accents": "e" + "\u0301" * 100 * TIMES,
    "right to left": "שלום " * 20 * TIMES,
    "overrides": "\u202e\u2066" * 50 * TIMES,
    "nothing": "\u200b" * 100 * TIMES,
    "NUL": "\0" * 100 * TIMES,
    "one that becomes many": "\ufdfa" * 100 * TIMES,
}


@pytest.mark.parametrize("kind", others_long(KINDS))
def test_a_long_line_ends_after_work_and_memory_in_its_proportion(kind: Kind) -> None:
    lost, tried = [], 0
    chosen = trials(["sentences without spaces"], list(LONG))
    for name in chosen:
        for byte_fallback in trials([False], [False, True]):
            tried += 1
            label = f"{name}, {byte_fallback}"
            try:
                found, characters, memory = in_child(
                    translate, translator(kind, byte_fallback), ["ja", LONG[name], "ja"], seconds=600
                )
            except (ChildDiedError, RuntimeError) as error:
                lost.append(f"{label}: {error}")
                continue
            if len(found) != 3 or found[0] != found[2] or "\n" in found[1]:
                lost.append(f"{label}: {len(found)} lines")
            # First by sentences, then (if several are too long) by words, and finally at any place.
            if characters > 5 * len(LONG[name]) + 4:
                lost.append(f"{label}: {characters:,} characters were encoded")
            if memory > 1 << 30:
                lost.append(f"{label}: {memory:,} bytes")
    report(f"a line of some {100 * TIMES:,} characters, tokenizer={kind}", tried, lost)


@pytest.mark.parametrize("kind", others_long(KINDS))
def test_any_text_can_teach_a_tokenizer_or_is_too_little_for_one(kind: Kind) -> None:
    chance, lost, tried = random.Random(6), [], trials(2, 100)
    for number in range(tried):
        lines = ["".join(chance.choices(STRANGE + OTHERS, k=chance.randrange(60))) for _ in range(chance.randrange(40))]
        lines += [chance.choice(STRANGE) * 5000, ""]
        try:
            taught = in_child(teach, kind, lines, number % 2 == 0)
            if taught != len(lines):
                lost.append(f"{number}: {taught}")
        except RuntimeError as error:
            if not re.match(
                "VocabularySizeError: tokenizer.vocabulary_size|ValueError: no tokenizer could be trained", str(error)
            ):
                lost.append(f"{number}: {error}")
        except ChildDiedError as error:
            lost.append(f"{number}: {error}")
    report(f"any text teaches a tokenizer or is refused, tokenizer={kind}", tried, lost)
