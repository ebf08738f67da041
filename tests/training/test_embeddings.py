"""Counted embeddings compared with loops and NumPy's own decomposition, and their use in training."""

from itertools import permutations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.factories import small_model
from transformer.data import encoded
from transformer.data.encoded import Lengths, Split
from transformer.data.mmap import IntArray
from transformer.training import embeddings
from transformer.training.embeddings import cooccurrence_embeddings, initialize_embeddings

VOCABULARY = 12
# Ids from 4 to 7 in the source, 8 to 11 in the target; each id and the id that is 4 higher are in the same pairs.
PAIRS = [([4, 5], [8, 9]), ([4, 6, 5], [8, 10, 9]), ([6, 7, 6], [10, 11]), ([7], [11, 11])]
LONG = ([4, 5, 6, 7, 5, 4], [8, 9, 10, 11])


class Listed(Split):
    """Existing pairs."""

    def __init__(self, pairs: list[tuple[list[int], list[int]]]) -> None:
        self.pairs = [tuple(np.array(side, np.uint16) for side in pair) for pair in pairs]

    def __len__(self) -> int:
        return len(self.pairs)

    def lengths(self, epoch: int) -> Lengths:
        source, target = (np.array([len(pair[side]) for pair in self.pairs]) for side in (0, 1))
        return source, target

    def pair(self, epoch: int, number: int) -> tuple[IntArray, IntArray]:
        return self.pairs[number]  # type: ignore[return-value]

    def pair_number(self, epoch: int, number: int) -> str:
        return str(number + 1)


def counts_by_loops(pairs: list[tuple[list[int], list[int]]] = PAIRS) -> NDArray[np.float64]:
    """[pieces, 2, contexts]: pairs with both ids, and places where they are at most two positions apart."""
    counts = np.zeros((VOCABULARY, 2, VOCABULARY))
    for pair in pairs:
        together = {*pair[0], *pair[1]}
        for one in together:
            for other in together:
                counts[one, 0, other] += 1
        for side in pair:
            for i, j in permutations(range(len(side)), 2):
                counts[side[i], 1, side[j]] += abs(i - j) <= 2
    return counts


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_counts_are_those_of_plain_loops(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(embeddings, "CHUNK", chunk)
    counts = embeddings.count_cooccurrences([Listed(PAIRS[:3]), Listed([*PAIRS[3:], LONG])], VOCABULARY)
    np.testing.assert_array_equal(counts.numpy(), counts_by_loops([*PAIRS, LONG]))


def test_if_there_are_too_many_pairs_an_even_share_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "MAX_COUNTED", 3)
    counts = embeddings.count_cooccurrences([Listed(PAIRS)], VOCABULARY)
    assert torch.equal(counts, embeddings.count_cooccurrences([Listed([PAIRS[0], PAIRS[2]])], VOCABULARY))


def test_similarities_are_those_of_numpys_decomposition() -> None:
    parts = []
    for counts in counts_by_loops().transpose(1, 0, 2):
        contexts = counts.sum(axis=0) ** 0.75
        with np.errstate(divide="ignore", invalid="ignore"):
            information = np.log(counts / counts.sum(axis=1, keepdims=True) / (contexts / contexts.sum()))
        parts.append(np.where(counts > 0, information, 0).clip(min=0))
    left, singular_values, _ = np.linalg.svd(np.hstack(parts), full_matrices=False)
    expected = (left * np.sqrt(singular_values))[4:]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = cooccurrence_embeddings([Listed(PAIRS)], VOCABULARY, dim=16, seed=1)[4:].numpy()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
    assert (found != 0).all(), "turned at random, of 16 dimensions none holds more than another"


def test_a_piece_is_most_similar_to_its_translation() -> None:
    found = cooccurrence_embeddings([Listed(PAIRS)], VOCABULARY, dim=16, seed=1)
    similarities = found[4:8] @ found[8:].T
    # 8 and 9 are always together, so 4 and 5 are equally similar to both.
    assert (similarities.diagonal() > similarities.amax(dim=1) - 1e-5).all()


def test_pieces_without_a_count_keep_their_random_embedding() -> None:
    torch.manual_seed(1)
    model = small_model(source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)
    before = model.output.weight.detach().clone()
    initialize_embeddings(model, [Listed(PAIRS)], seed=1)
    after = model.encoder.embedding.tokens.weight
    assert torch.equal(after[:4], before[:4])
    changed = (after != before).all(dim=1)
    assert changed[4:].all()
    # At least nine tenths of the variance are counted.
    counted = cooccurrence_embeddings([Listed(PAIRS)], VOCABULARY, before.size(1), seed=1)[4:]
    torch.testing.assert_close(after[4:], 0.9**0.5 * counted + 0.1**0.5 * before[4:])


def test_the_seed_decides_and_random_draws_go_on_as_before() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, same, other = (cooccurrence_embeddings([Listed(PAIRS)], VOCABULARY, 4, seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)
    assert torch.equal(torch.rand(3), expected)


def test_a_vocabulary_too_large_for_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10,000,000 pieces would take .* training.initial_embeddings=random"):
        cooccurrence_embeddings([Listed(PAIRS)], 10_000_000, 4, seed=1)
