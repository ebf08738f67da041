"""The best continuations of a beam, by looking closely at few places only."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def best_continuations(
    scores: Float[Tensor, "sentences rows vocabulary"], totals: Float[Tensor, "sentences rows"], k: int
) -> tuple[Float[Tensor, "sentences k"], Int[Tensor, "sentences k"], Int[Tensor, "sentences k"]]:
    """The `k` largest of totals + scores in each sentence, largest first: their sums, rows and ids.

    torch.topk on a CPU sorts its way through all of them. Here the maxima of blocks are found first: the k largest
    entries stand in the k blocks with the largest maxima.
    """
    sentences, rows, vocabulary = scores.shape
    block = next((size for size in range(64, 129) if vocabulary % size == 0), 1)
    blocks = rows * vocabulary // block
    if scores.device.type != "cpu" or block == 1 or blocks <= k:
        sums, places = (totals[..., None] + scores).flatten(1).topk(k)
        return sums, places // vocabulary, places % vocabulary
    maxima = scores.view(sentences, rows, -1, block).amax(dim=3) + totals[..., None]
    chosen = maxima.flatten(1).topk(k).indices
    first = torch.arange(0, sentences * blocks, blocks)[:, None]
    candidates = scores.view(-1, block).index_select(0, (first + chosen).flatten()).view(sentences, k, block)
    of_rows = totals.gather(1, chosen * block // vocabulary)
    sums, at = (candidates + of_rows[..., None]).flatten(1).topk(k)
    places = chosen.gather(1, at // block) * block + at % block
    return sums, places // vocabulary, places % vocabulary
