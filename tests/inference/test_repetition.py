"""A translation that repeats itself or is empty is found, and searched again without repetitions."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import others_long
from tests.tools.export.models import TEXTS, random_translator, small_tokenizer
from transformer import Translator
from transformer.data.clean import clean
from transformer.inference.parts import Translation
from transformer.inference.repetition import is_looping, times_in_a_row, without_repeats
from transformer.inference.translator import BEAM

UNBLOCKED = replace(BEAM, no_repeat=0)


@pytest.fixture(scope="module")
def untrained() -> Translator:
    """An untrained model, whose translations usually repeat themselves."""
    return random_translator(small_tokenizer(), max_length=64)


@given(st.text("ab.", max_size=12))
def test_a_loop_is_counted_as_by_trying_all_repetitions(text: str) -> None:
    found = [
        times
        for start, end in itertools.combinations(range(len(text) + 1), 2)
        for times in range(1, len(text) + 1)
        if text[start : start + times * (end - start)] == text[start:end] * times and set(text[start:end]) != {"."}
    ]
    assert times_in_a_row([*text]) == max(found, default=1)


@pytest.mark.parametrize(
    ("source", "target", "loops"),
    [
        ("sehr gut", "very very very good", False),
        ("sehr gut", "very very very very good", True),
        ("nein , nein , nein", "no , no , no , no , no , no", False),
        ("ha ha ha ha", "ha ha ha ha ha ha", False),
        ("nein", "I do not I do not I do not I do not know", True),
        ("eine Million", "1 0 0 0 0 0 0", False),
    ],
)
def test_a_loop_repeats_more_often_than_the_source(source: str, target: str, loops: bool) -> None:
    found = Translation(target, 0.0, 0.0, target.split())
    assert is_looping(source.split(), found) == loops


def test_in_a_cut_text_one_repetition_is_a_loop_and_none_is_not() -> None:
    source = "ein Mann".split()
    for text, loops in (("a man and a man and a", True), ("a man and a woman and a", False)):
        assert is_looping(source, Translation(text, 0.0, 0.0, text.split(), is_cut=True)) == loops


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_only_what_loops_is_searched_again_without_repeats(untrained: Translator, method: str) -> None:
    search = replace(UNBLOCKED, method=method)
    found = untrained.n_best(TEXTS, replace(search, no_repeat=None))
    first, again = untrained.n_best(TEXTS, search), untrained.n_best(TEXTS, without_repeats(search, "bpe"))
    pieces = [untrained.source_tokenizer.pieces(text) for text in TEXTS]
    loops = [is_looping(source, best) or not best.text for source, (best, *_) in zip(pieces, first, strict=True)]
    assert any(loops)
    assert [best.pieces for best, *_ in found] == [
        (again if is_faulty and again[index][0].text else first)[index][0].pieces
        for index, is_faulty in enumerate(loops)
    ]
    assert not any(is_looping(source, best) for source, (best, *_) in zip(pieces, found, strict=True))


def test_an_empty_translation_of_a_text_is_searched_again(untrained: Translator) -> None:
    search = replace(UNBLOCKED, length_penalty=-9.0)  # prefers the shortest
    empty = [text for text, [best, *_] in zip(TEXTS, untrained.n_best(TEXTS, search), strict=True) if not best.pieces]
    assert len(empty) > 1
    found = untrained.n_best(empty, replace(search, no_repeat=None))
    assert [text for text, [best, *_] in zip(empty, found, strict=True) if not best.pieces] == [""]


def odd_line(number: int) -> str:
    """Digits, emoji, one word, 500 words, another language, repeated words, random bytes and letters in turn."""
    draw = random.Random(number)
    words = " ".join(TEXTS).split()
    kinds = [
        lambda: " ".join(str(draw.randrange(10**9)) for _ in range(draw.randrange(1, 12))),
        lambda: "".join(draw.choices("😀🚗👍🏽🏳️‍🌈❤️", k=draw.randrange(1, 20))),
        lambda: draw.choice(words),
        lambda: " ".join(draw.choices(words, k=500 if number % 100 == 3 else 20)),
        lambda: " ".join(
            draw.choices("the quick fox le chat пока мы 今日は 雨 שלום مرحبا".split(), k=draw.randrange(1, 15))
        ),
        lambda: " ".join(draw.choices(words, k=draw.randrange(1, 4)) * draw.randrange(2, 12)),
        lambda: draw.randbytes(draw.randrange(1, 40)).decode("latin-1"),
        lambda: draw.choice("aäxyz!?.") * draw.randrange(1, 60),
        lambda: "".join(draw.choices("abcdefghijklmnopqrstuvwxyzäöüß ", k=draw.randrange(1, 60))),
        lambda: " ".join(draw.choices(words, k=draw.randrange(1, 9))).upper(),
    ]
    return kinds[number % len(kinds)]()


@pytest.mark.parametrize(("count", "method"), others_long([(60, "greedy"), (10_000, "greedy"), (1000, "beam")]))
def test_no_translation_of_an_odd_line_loops_or_is_empty(untrained: Translator, count: int, method: str) -> None:
    untrained.warns_of_lines = untrained.warns_of_sources = False
    lines = [odd_line(number) for number in range(count)]
    encoded = untrained.encode(lines, range(count), "long")
    assert all(parts or not clean(line).strip() for line, parts in zip(lines, encoded, strict=True))
    parts, search = [*itertools.chain.from_iterable(encoded)], replace(BEAM, method=method)
    looping = []
    for part, [best, *_] in zip(parts, untrained.n_best_parts(parts, search), strict=True):
        assert part.text or best.pieces
        if not part.text and is_looping([untrained.source_tokenizer.piece(id) for id in part.ids], best):
            looping.append(part.ids)
    # A loop stays if the second search only finds special symbols, as happens with an untrained model.
    again = untrained.n_best_ids(looping, without_repeats(search, "bpe"))
    assert not any(best.text for best, *_ in again)
