"""Words are aligned by counting, with the same results as plain loops."""

import random
from collections import Counter, defaultdict
from math import exp

import pytest
import torch

from transformer.data import aligner as module
from transformer.data.aligner import count_translations, word_alignments


def weights(source: list[str], target: list[str], table: dict[tuple[str, str], float]) -> list[list[float]]:
    """For each target word, the probability of each source word, and of none, up to a factor."""
    rows = []
    for j, word in enumerate(target):
        places = [(i + 0.5) / len(source) for i in range(len(source))]
        near = [exp(-module.DIAGONAL * abs(place - (j + 0.5) / len(target))) for place in places]
        prior = [*((1 - module.NULL_SHARE) * one / sum(near) for one in near), module.NULL_SHARE]
        rows.append([share * table[other, word] for share, other in zip(prior, [*source, ""], strict=True)])
    return rows


def table_by_loops(pairs: list[tuple[list[str], list[str]]]) -> dict[tuple[str, str], float]:
    """p(target word | source word) by expectation maximization; the source word "" means none."""
    table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(module.EM_ITERATIONS):
        counts: dict[tuple[str, str], float] = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for source, target in pairs:
            for word, row in zip(target, weights(source, target, table) if source else [], strict=bool(source)):
                for other, weight in zip([*source, ""], row, strict=True):
                    counts[other, word] += weight / sum(row)
                    totals[other] += weight / sum(row)
        table = defaultdict(float, {pair: count / totals[pair[0]] for pair, count in counts.items()})
    return table


@pytest.mark.parametrize("null_share", [module.NULL_SHARE, 0.4])  # with more, more words are linked to none
def test_every_word_is_linked_to_the_likeliest_by_plain_loops_or_to_none(
    monkeypatch: pytest.MonkeyPatch, null_share: float
) -> None:
    monkeypatch.setattr(module, "NULL_SHARE", null_share)
    chance, translations, pairs = random.Random(1), dict(zip("abcdefghij", "klmnopqrst", strict=True)), []
    for _ in range(80):
        source = chance.choices("abcdefghij", k=max(0, chance.randint(-1, 6)))
        target = [translations[word] for word in source if chance.random() < 0.8]
        for _ in range(chance.randint(1, 2)):
            target.insert(chance.randint(0, len(target)), "z")  # translates no source word
        pairs.append((" ".join(source), " ".join(target)))
    kinds = Counter[str]()
    words = [(source.split(), target.split()) for source, target in pairs]
    table = table_by_loops(words)
    for (source, target), links in zip(words, word_alignments(pairs), strict=True):
        linked = {word: other for other, word in links}
        assert len(linked) == len(links)
        for word, row in enumerate(weights(source, target, table) if source else []):
            assert row[linked.get(word, -1)] == pytest.approx(max(row))  # any of equal ones
            kinds["linked" if word in linked else "to none"] += 1
        assert source or not links
    assert kinds["linked"] > 30
    assert kinds["to none"] > (30 if null_share == 0.4 else 0)


def test_empty_lines_have_no_links() -> None:
    pairs = [("a b", "x y"), ("", "x"), ("a", ""), ("", ""), ("b a", "y x")] * 3
    links = word_alignments(pairs)
    assert links[:5] == [[(0, 0), (1, 1)], [], [], [], [(0, 0), (1, 1)]]
    assert word_alignments([("", "")]) == [[]]


def test_words_that_differ_in_a_last_mark_are_two() -> None:
    def links(x: str, y: str) -> list[list[tuple[int, int]]]:
        return word_alignments([("a b", f"{y} {x}."), *[("a", x), ("b", f"({y})")] * 9])

    assert links("कि", "की") == links("x", "y")
    assert links("x", "y")[0] == [(1, 0), (0, 1)]


def test_capitals_and_punctuation_make_no_other_word_but_stand_for_themselves_alone() -> None:
    plain = [("a b", "y x"), *[("a", "x"), ("b", "y")] * 9]
    written = [("A «b»", "(Y) x!"), *plain[1:]]
    assert word_alignments(written)[0] == word_alignments(plain)[0] == [(1, 0), (0, 1)]
    marks = [("– !", "? -"), *[("–", "-"), ("!", "?")] * 9]
    assert word_alignments(marks)[0] == [(1, 0), (0, 1)]


def test_a_table_has_the_probabilities_of_plain_loops_and_0_elsewhere() -> None:
    pairs = [([4, 5], [6, 7]), ([4], [6]), ([5, 5, 8], [7, 9]), ([10, 4, 5, 8, 4], [6])]
    expected = table_by_loops([(list(map(str, source)), list(map(str, target))) for source, target in pairs])
    table = count_translations(pairs, 3, 11)
    found = table(torch.arange(12)[:, None], torch.arange(11))
    for source in range(12):
        for target in range(11):
            name = "" if source == 3 else str(source)
            assert found[source, target].item() == pytest.approx(expected[name, str(target)], abs=1e-6)


def test_long_pairs_are_left_out_and_many_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("a b", "x y"), ("a", "x")] * 4
    monkeypatch.setattr(module, "MAX_PLACES_OF_PAIR", 3)
    assert word_alignments(pairs) == [[], [(0, 0)]] * 4
    monkeypatch.setattr(module, "MAX_PLACES", 2)
    assert word_alignments(pairs) == [[], [(0, 0)]] * 4
