"""Which tokens of a sentence pair translate each other, found by counting in the pairs alone.

The tokens are ids of a vocabulary, to teach a model where to look (`training.guided_alignment`), or words, to judge
where it looks (`evaluation.alignment_error`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.data.languages import marks
from transformer.data.text_files import Pair
from transformer.printing import with_progress

Link = tuple[int, int]  # a source word and a target word, counted from 0
IdPair = tuple[Sequence[int], Sequence[int]]
EM_ITERATIONS = 5  # of expectation maximization
NULL_SHARE = 0.08  # the share of target tokens that come from no source token, as in fast_align
DIAGONAL = 4.0  # how strongly a target token prefers source tokens at its own place of the sentence, as in fast_align
# Limits for source × target tokens, of one pair and of all pairs. A longer pair is left out; of too many pairs only
# some are taken, at equal distances. 20 million take about 1 GB.
MAX_PLACES_OF_PAIR, MAX_PLACES = 1_000_000, 20_000_000


@dataclass(frozen=True)
class TranslationTable:
    """p(target id | source id), for ids that occur together in a pair; 0 for all others."""

    keys: Int[Tensor, " entries"]  # source id × target_vocabulary + target id, ascending
    probabilities: Float[Tensor, " entries"]
    target_vocabulary: int

    def to(self, device: torch.device) -> "TranslationTable":
        return TranslationTable(self.keys.to(device), self.probabilities.to(device), self.target_vocabulary)

    def __call__(self, source: Int[Tensor, "*#shape"], target: Int[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
        """The probabilities of these ids; the shapes are broadcast."""
        keys = source * self.target_vocabulary + target
        places = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        return torch.where(self.keys[places] == keys, self.probabilities[places], 0.0)


def _prior(source_length: int, target_length: int) -> np.ndarray:
    """The prior of each link of a target token [target, source + 1]: the last column is "no source token"."""
    # The place of a token is the middle of its part of the sentence, with the sentence from 0 to 1.
    source, target = ((np.arange(length) + 0.5) / length for length in (source_length, target_length))
    distance = np.abs(target[:, None] - source)
    near = np.exp(-DIAGONAL * distance)
    near *= (1 - NULL_SHARE) / near.sum(axis=1, keepdims=True)
    return np.concatenate([near, np.full((target_length, 1), NULL_SHARE)], axis=1)


def _is_counted(source: Sequence[int], target: Sequence[int]) -> bool:
    return 0 < len(source) * len(target) <= MAX_PLACES_OF_PAIR


def _counted(pairs: Sequence[IdPair]) -> list[IdPair]:
    kept = [pair for pair in pairs if _is_counted(*pair)]
    places = sum((len(source) + 1) * len(target) for source, target in kept)
    return kept[:: max(1, -(-places // MAX_PLACES))]


def count_translations(pairs: Sequence[IdPair], null: int, target_vocabulary: int) -> TranslationTable:
    """IBM's model 1 (Brown et al. 1993, section 4.2) with fast_align's preference for the diagonal (Dyer et al. 2013).

    Every target token comes from one source token, or from none, which has the id `null`. Expectation maximization:
    each round distributes every target token over the source tokens of its pair, by the probabilities of the last one.
    """
    counted = _counted(pairs)
    if not counted:
        return TranslationTable(torch.tensor([-1]), torch.zeros(1), target_vocabulary)
    as_arrays = [(np.array([*source, null]), np.array(target)[:, None]) for source, target in counted]
    keys = np.concatenate([(source * target_vocabulary + target).ravel() for source, target in as_arrays])
    prior = np.concatenate([_prior(len(source), len(target)).ravel() for source, target in counted])
    # A group is one target token of one pair with all source tokens that it may come from.
    sizes = np.repeat([len(source) + 1 for source, _ in counted], [len(target) for _, target in counted])
    starts = np.cumsum(sizes) - sizes
    entries, entry = np.unique(keys, return_inverse=True)
    _, of_source = np.unique(entries // target_vocabulary, return_inverse=True)
    probabilities = np.ones(len(entries))
    for _ in with_progress(range(EM_ITERATIONS), "counting alignments"):
        shares = probabilities[entry] * prior
        shares /= np.repeat(np.add.reduceat(shares, starts), sizes)
        counts = np.bincount(entry, shares)
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    return TranslationTable(torch.from_numpy(entries), torch.from_numpy(probabilities).float(), target_vocabulary)


@cache
def _punctuation() -> re.Pattern[str]:
    """Characters at both ends of a word that are no letters, digits or marks."""
    other = rf"[^\w{marks()}]+"
    return re.compile(rf"^{other}|{other}$")


def bare_word(word: str) -> str:
    """The word without the punctuation around it."""
    return _punctuation().sub("", word) or word


def word_alignments(pairs: Sequence[Pair]) -> list[list[Link]]:
    """Links each target word to its most likely source word, or to none if that is more likely; learned from these
    pairs alone."""
    sources, targets = {"": 0}, {"": 0}  # 0: no source word

    def numbers(known: dict[str, int], text: str) -> list[int]:
        return [known.setdefault(bare_word(word).lower(), len(known)) for word in text.split()]

    ids = [(numbers(sources, source), numbers(targets, target)) for source, target in pairs]
    table = count_translations(ids, 0, len(targets))
    links = []
    for source, target in with_progress(ids, "aligning words"):
        found: list[Link] = []
        if _is_counted(source, target):
            likely = table(torch.tensor([*source, 0]), torch.tensor(target)[:, None]).double().numpy()
            best = (likely * _prior(len(source), len(target))).argmax(axis=1).tolist()
            found = [(word, place) for place, word in enumerate(best) if word < len(source)]
        links.append(found)
    return links
