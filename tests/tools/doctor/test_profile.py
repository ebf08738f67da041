"""Usual values of a corpus, which decide what counts as a fault in it."""

import math

import pytest

from tests.tools.doctor.corpora import Pair
from transformer.data.words import Line
from transformer.tools.doctor.profile import Profile


def profile(*pairs: Pair) -> Profile:
    return Profile(Line(number, pair, pair) for number, pair in enumerate(pairs, 1))


def test_the_usual_ratio_is_the_median_of_pairs_with_two_texts() -> None:
    lengths = [40] * 3 + [90] * 4 + [140] * 2  # ten characters are added to each
    found = profile(*[("x" * 40, "y" * length) for length in lengths], *[("", "y" * 990)] * 20)
    assert found.median == pytest.approx(math.log(100 / 50), abs=0.01)


def test_a_script_of_a_twentieth_of_the_letters_belongs_to_the_language() -> None:
    source, target = profile(("a" * 97 + "ж" * 3, "ж" * 60 + "a" * 40)).scripts
    assert source == {"LATIN"}
    assert target == {"CYRILLIC", "LATIN"}


def test_all_styles_of_quotation_marks_but_the_most_frequent_are_rare() -> None:
    source, target = profile(("«a»", '"a"'), ("«b»", "“b”"), ("“c”", "“c” it's")).rare_quotes
    assert source.isdisjoint("«»‹›")
    assert source.issuperset('“”„"「」')
    assert target.isdisjoint("“”„‟'")
    assert target.issuperset('"«»’')
