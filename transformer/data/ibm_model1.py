"""How likely each target id is as a translation of each source id, counted in sentence pairs (Brown et al. 1993)."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.data.batching import pad
from transformer.data.tokenizer import EOS, PAD
from transformer.printing import with_progress

ITERATIONS = 4  # of expectation maximization
PLACES = 4_000_000  # pairs × source × target tokens counted at a time
IdPair = tuple[list[int], list[int]]


def _padded(chunk: list[IdPair]) -> tuple[Tensor, Tensor]:
    return pad([[*source, EOS] for source, _ in chunk]), pad([target for _, target in chunk])


def _chunks(pairs: Sequence[IdPair]) -> Iterator[tuple[Int[Tensor, "pairs source"], Int[Tensor, "pairs target"]]]:
    """Pairs of similar lengths, padded."""
    chunk: list[IdPair] = []
    for pair in sorted(pairs, key=lambda pair: max(map(len, pair))):
        if chunk and (len(chunk) + 1) * (max(map(len, pair)) + 1) ** 2 > PLACES:
            yield _padded(chunk)
            chunk = []
        chunk.append(pair)
    if chunk:
        yield _padded(chunk)


def translation_probabilities(
    pairs: Sequence[IdPair], vocabularies: tuple[int, int]
) -> Float[Tensor, "source_vocabulary target_vocabulary"]:
    """p(target id | source id) by IBM's model 1 (Brown et al. 1993, section 4.2). EOS, which every source has, is its
    empty word."""
    probabilities, chunks = torch.ones(vocabularies), list(_chunks(pairs))
    for _ in with_progress(range(ITERATIONS), "counting alignments"):
        counts = torch.zeros(vocabularies)
        for source, target in chunks:
            places = source[:, :, None] * vocabularies[1] + target[:, None, :]
            shares = probabilities.view(-1)[places]
            shares *= (source != PAD)[:, :, None] & (target != PAD)[:, None, :]
            # Each target token is shared out among the tokens of its source.
            shares /= shares.sum(dim=1, keepdim=True).clamp_min(1e-30)
            counts.view(-1).scatter_add_(0, places.flatten(), shares.flatten())
        probabilities = counts / counts.sum(dim=1, keepdim=True).clamp_min(1e-30)
    return probabilities
