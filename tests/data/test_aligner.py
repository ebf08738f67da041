"""Words are aligned by counting, as plain loops count."""

import random
from collections import Counter, defaultdict
from math import exp

import pytest

from transformer.data import aligner as module
from transformer.data.aligner import statistical_alignments


def weights_by_loops(pairs: list[tuple[str, str]]) -> list[list[list[float]]]:
    """For each target word of each pair how likely it comes from each source word, and from none, up to a factor."""
    probabilities: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(module.EM_ITERATIONS + 1):
        counts: Counter[tuple[str, str]] = Counter()
        totals: Counter[str] = Counter()
        weights = []
        for source, target in (tuple(map(str.split, pair)) for pair in pairs):
            of_pair = []
            for j, word in enumerate(target):
                places = [(i + 0.5) / len(source) for i in range(len(source))]
                near = [exp(-module.DIAGONAL * abs(place - (j + 0.5) / len(target))) for place in places]
                prior = [*((1 - module.NULL_SHARE) * one / sum(near) for one in near), module.NULL_SHARE]
                found = [share * probabilities[other, word] for share, other in zip(prior, [*source, ""], strict=True)]
                for other, weight in zip([*source, ""], found, strict=True):
                    counts[other, word] += weight / sum(found)  # type: ignore[assignment]
                    totals[other] += weight / sum(found)  # type: ignore[assignment]
                of_pair.append(found)
            weights.append(of_pair)
        probabilities = {pair: count / totals[pair[0]] for pair, count in counts.items()}
    return weights


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
            target.insert(chance.randint(0, len(target)), "z")  # of no source word
        pairs.append((" ".join(source), " ".join(target)))
    kinds = Counter[str]()
    for weights, links in zip(weights_by_loops(pairs), statistical_alignments(pairs), strict=True):
        linked = {word: other for other, word in links}
        assert len(linked) == len(links)
        for word, found in enumerate(weights):
            assert found[linked.get(word, -1)] == pytest.approx(max(found))  # of equal ones any
            kinds["linked" if word in linked else "to none" if len(found) > 1 else "empty source"] += 1
    assert min(kinds["linked"], kinds["empty source"]) > 30
    assert kinds["to none"] > (30 if null_share == 0.4 else 0)


def test_the_statistical_aligner_takes_empty_lines() -> None:
    pairs = [("a b", "x y"), ("", "x"), ("a", ""), ("", ""), ("b a", "y x")] * 3
    links = statistical_alignments(pairs)
    assert links[:5] == [[(0, 0), (1, 1)], [], [], [], [(0, 0), (1, 1)]]
    assert statistical_alignments([("", "")]) == [[]]


def test_words_that_differ_in_a_last_mark_are_two() -> None:
    def links(x: str, y: str) -> list[list[tuple[int, int]]]:
        return statistical_alignments([("a b", f"{y} {x}."), *[("a", x), ("b", f"({y})")] * 9])

    assert links("कि", "की") == links("x", "y")
    assert links("x", "y")[0] == [(1, 0), (0, 1)]


def test_capitals_and_punctuation_make_no_other_word_but_stand_for_themselves_alone() -> None:
    plain = [("a b", "y x"), *[("a", "x"), ("b", "y")] * 9]
    written = [("A «b»", "(Y) x!"), *plain[1:]]
    assert statistical_alignments(written)[0] == statistical_alignments(plain)[0] == [(1, 0), (0, 1)]
    marks = [("– !", "? -"), *[("–", "-"), ("!", "?")] * 9]
    assert statistical_alignments(marks)[0] == [(1, 0), (0, 1)]
