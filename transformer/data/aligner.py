"""Which words of a sentence pair translate each other, counted in the pairs alone.

By words, and with a preference for the diagonal: a judge of what a model has learned. (`ibm_model1` counts the ids that
training takes.)
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from transformer.data.languages import marks
from transformer.data.text_files import Pair

Link = tuple[int, int]  # a source word and a target word, counted from 0
EM_ITERATIONS = 5  # of expectation maximization
NULL_SHARE = 0.08  # the share of target words that come from no source word, as in fast_align
DIAGONAL = 4.0  # how strongly a target word prefers the source words at its own place of the sentence, as there


@cache
def _punctuation() -> re.Pattern[str]:
    """What is no letter, no digit and no mark, at both ends of a word."""
    other = rf"[^\w{marks()}]+"
    return re.compile(rf"^{other}|{other}$")


def _plain(side: str, word: str) -> str:
    """The word without its punctuation and capitals, which are no other word; apart from those of the other side."""
    return side + (_punctuation().sub("", word) or word).lower()


def _cooccurrences(
    pairs: Sequence[Pair], numbers: dict[str, int]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each pair, the numbers of source and target word and the prior of each way to link them, target by target."""
    numbers.setdefault("", 0)  # no source word
    for pair in pairs:
        source, target = (
            np.array([numbers.setdefault(_plain(side, word), len(numbers)) for word in text.split()], dtype=np.int64)
            for side, text in zip("st", pair, strict=True)
        )
        if not len(target):
            continue
        places = [(np.arange(len(side)) + 0.5) / max(1, len(side)) for side in (source, target)]
        near = np.exp(-DIAGONAL * np.abs(places[1][:, None] - places[0])) if len(source) else np.zeros((len(target), 0))
        near = (1 - NULL_SHARE) * near / near.sum(axis=1, keepdims=True)
        prior = np.concatenate([near, np.full((len(target), 1), NULL_SHARE)], axis=1)
        yield np.tile(np.append(source, 0), len(target)), np.repeat(target, len(source) + 1), prior.ravel()


def _sums(values: Tensor, of: Tensor, count: int) -> Tensor:
    return torch.zeros(count, dtype=values.dtype).index_add(0, of, values)


def _links(pairs: Sequence[Pair], weights: list[float]) -> list[list[Link]]:
    """The heaviest source word of each target word, unless none is heavier."""
    links, start = [], 0
    for source, target in pairs:
        size = len(source.split()) + 1
        found = []
        for word in range(len(target.split())):
            group = weights[start : start + size]
            best = max(range(size), key=group.__getitem__)
            found += [(best, word)] if best < size - 1 else []
            start += size
        links.append(found)
    return links


def statistical_alignments(pairs: Sequence[Pair]) -> list[list[Link]]:
    """The likeliest links by IBM's model 1 (Brown et al. 1993) with fast_align's preference for the diagonal.

    Every target word comes from one source word or from none. Expectation maximization learns p(target word | source
    word) from the pairs alone: in each round every target word is shared out among the source words of its sentence.
    """
    numbers: dict[str, int] = {}
    rows = list(_cooccurrences(pairs, numbers))
    if not rows:
        return [[] for _ in pairs]
    source, target, prior = (torch.from_numpy(np.concatenate(column)) for column in zip(*rows, strict=True))
    # A group is one target word of one sentence with all that it may come from: the source words, and none.
    sizes = torch.tensor([len(side[0].split()) + 1 for side in pairs for _ in side[1].split()])
    group = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    keys, entry = torch.unique(source * len(numbers) + target, return_inverse=True)
    of_source, share = keys // len(numbers), torch.ones(len(entry), dtype=torch.float64)
    probability = torch.ones(len(keys), dtype=torch.float64)
    for _ in range(EM_ITERATIONS):
        share = probability[entry] * prior
        share = share / _sums(share, group, len(sizes))[group]
        counts = _sums(share, entry, len(keys))
        probability = counts / _sums(counts, of_source, len(numbers))[of_source]
    return _links(pairs, (probability[entry] * prior).tolist())
