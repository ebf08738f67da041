"""Learns what is usual in a split and what it has more than once, in one pass and with limited memory."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from transformer.data.languages import scripts
from transformer.data.splitting import hash64
from transformer.data.words import BUCKETS, Line, trigrams

# A script belongs to a language if it has this share of the letters (names and formulas may have other scripts).
SHARE_OF_A_SCRIPT = 0.05
# This number of characters is added to both lengths, because lengths of short texts differ by chance.
SLACK = 10
# Styles of quotation marks, and of apostrophes: a corpus should have one style of each.
QUOTES = (('"', "“”„‟", "«»‹›", "「」『』"), ("'", "‘’"))


def log_ratio(line: Line) -> float:
    """The logarithm of target length over source length, in characters."""
    source, target = (len(text) + SLACK for text in line.text)
    return math.log(target / source)


def _repeated(digests: NDArray[np.uint64]) -> set[int]:
    """The digests that occur more than once."""
    values, counts = np.unique(digests, return_counts=True)
    return set(values[counts > 1].tolist())


def _median(histogram: Counter[int]) -> float:
    """The median of a histogram of logarithms, which are given in hundredths."""
    half, seen = histogram.total() / 2, 0
    for value in sorted(histogram):
        seen += histogram[value]
        if seen >= half:
            return value / 100
    return 0.0


class Profile:
    """The properties of some pairs: the `median` log ratio of lengths, the `scripts` and `rare_quotes` of each side
    (marks of a rarer style), the `repeated` texts, and data to decide which of the two languages a text looks like
    (`log_likelihood_ratio`).

    It takes 16 bytes of memory per pair, and two tables of trigrams.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        pairs, sources = array("Q"), array("Q")
        ratios: Counter[int] = Counter()
        letters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        quotes: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        counts = np.zeros((2, BUCKETS), np.int64)
        for line in lines:
            pairs.append(hash64(*line.text))
            sources.append(hash64(line.text[0]))
            if all(line.text):
                ratios[round(100 * log_ratio(line))] += 1
            for side, text in enumerate(line.text):
                letters[side].update(scripts(text))
                quotes[side].update(style for styles in QUOTES for style in styles if not set(style).isdisjoint(text))
                np.add.at(counts[side], trigrams(text), 1)
        self.repeated, self.repeated_sources = (_repeated(np.frombuffer(each, np.uint64)) for each in (pairs, sources))
        self.median = _median(ratios)
        self.scripts = tuple(
            {name for name, count in side.items() if count >= SHARE_OF_A_SCRIPT * side.total()} for side in letters
        )
        self.rare_quotes = tuple(
            {
                mark
                for styles in QUOTES
                for style in sorted(styles, key=lambda style: -side[style])[1:]
                for mark in style
            }
            for side in quotes
        )
        # log P(trigram | source language) − log P(trigram | target language); an unseen trigram counts as half.
        smoothed = (counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 0.5 * BUCKETS)
        self._log_ratios: NDArray[np.float64] = np.log(smoothed[0]) - np.log(smoothed[1])

    def log_likelihood_ratio(self, text: str) -> float:
        """How much more likely a text is in the source language than in the target language: nats per trigram."""
        numbers = trigrams(text)
        return float(self._log_ratios[numbers].mean()) if len(numbers) else 0.0
