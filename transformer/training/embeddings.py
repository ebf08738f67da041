"""Initial embeddings that are counted from the training pairs: pieces that occur together get similar vectors.

With random embeddings a model needs about a thousand steps to learn that "Hund" and "dog" belong together. Counting
finds that in seconds.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.data.encoded import Split, evenly_spread
from transformer.data.mmap import IntArray
from transformer.device import check_memory
from transformer.model.transformer import Transformer

# Two tokens of a sentence are neighbors up to this distance.
WINDOW = 2
# Frequent contexts count a little less than they would (Levy, Goldberg & Dagan 2015, section 3.1).
CONTEXT_SMOOTHING = 0.75
# The counted share of an embedding's variance; the rest stays random, so that pieces with equal counts differ.
COUNTED = 0.9
CHUNK = 100  # pairs counted at a time: a pair of long sentences gives a million counts


def pairs_and_neighbors(source: IntArray, target: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Ids that occur together: (0, ids, ids) anywhere in the pair, on both sides; (1, ids, ids) as neighbors."""
    source, target = (side.astype(np.int64) for side in (source, target))
    ids = np.unique(np.concatenate([source, target]))
    left, right = np.meshgrid(ids, ids)
    yield 0, left.ravel(), right.ravel()
    for side in (source, target):
        for distance in range(1, WINDOW + 1):
            left, right = side[:-distance], side[distance:]
            yield from ((1, left, right), (1, right, left))


def count_cooccurrences(splits: Sequence[Split], vocabulary: int) -> Float[Tensor, "vocabulary 2 vocabulary"]:
    """How often each piece occurs with each other piece: in a pair (0), and as a neighbor (1)."""
    counts = torch.zeros(vocabulary * 2 * vocabulary)
    numbered = evenly_spread(splits)
    for start in range(0, len(numbered), CHUNK):
        places = [
            (left * 2 + relation) * vocabulary + right
            for split, number in numbered[start : start + CHUNK]
            for relation, left, right in pairs_and_neighbors(*split.pair(0, number))
        ]
        together = torch.from_numpy(np.concatenate(places))
        counts.scatter_add_(0, together, torch.ones(()).expand(len(together)))
    return counts.view(vocabulary, 2, vocabulary)


def positive_pmi_(counts: Float[Tensor, "pieces contexts"]) -> Float[Tensor, "pieces contexts"]:
    """max(0, log p(piece, context) / (p(piece) p(context))), in place of the counts; 0 if the count is 0."""
    of_pieces, of_contexts = counts.sum(dim=1, keepdim=True), counts.sum(dim=0) ** CONTEXT_SMOOTHING
    # 1 in place of an empty sum, whose counts are 0.
    expected = of_contexts / of_contexts.sum().clamp_min(1)
    counts.div_(of_pieces.clamp_min(1)).div_(torch.where(expected > 0, expected, 1.0))
    return counts.clamp_min_(1).log_()


def cooccurrence_embeddings(
    splits: Sequence[Split], vocabulary: int, dim: int, seed: int
) -> Float[Tensor, "vocabulary dim"]:
    """U √S of the singular value decomposition of all positive pointwise mutual information (Levy & Goldberg 2014),
    rotated at random, so that all dimensions hold equally much. Rows have the length 1, or 0 without any count.

    Raises ValueError if there is too little memory: it takes 16 bytes × vocabulary².
    """
    check_memory(16 * vocabulary**2, f"counting with {vocabulary:,} pieces", "give training.initial_embeddings=random")
    ppmi = count_cooccurrences(splits, vocabulary)
    for relation in range(ppmi.size(1)):
        positive_pmi_(ppmi[:, relation])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rank = min(dim, vocabulary)
        left, singular_values, _ = torch.svd_lowrank(ppmi.flatten(1), rank, niter=3)
        rotation = nn.init.orthogonal_(torch.empty(rank, dim))
    counted = ppmi.flatten(1).any(dim=1, keepdim=True)  # the other rows have only rounding errors
    return nn.functional.normalize((left * singular_values.sqrt()) @ rotation, dim=1) * counted


@torch.no_grad()
def initialize_embeddings(model: Transformer, splits: Sequence[Split], seed: int) -> None:
    """Mixes counted embeddings into the random ones: nine tenths of the variance is counted. For a model whose
    embeddings are one matrix (tied_embeddings=all)."""
    weight = model.output.weight
    vocabulary, dim = weight.shape
    counted = cooccurrence_embeddings(splits, vocabulary, dim, seed)
    mixed = COUNTED**0.5 * counted + (1 - COUNTED) ** 0.5 * weight
    weight.copy_(torch.where(counted.any(dim=1, keepdim=True), mixed, weight))
