"""Finds the largest of many numbers by the maxima of blocks, which is faster on a CPU than torch.argmax and topk."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def block_size(log_probs: Tensor) -> int:
    """The number of ids in a block; 1: no blocks. Multiples of 16 are fastest, if they are not too small."""
    vocabulary = log_probs.size(-1)
    if log_probs.device.type != "cpu":
        return 1
    return next((size for size in (*range(128, 513, 16), *range(64, 513)) if vocabulary % size == 0), 1)


def best_sums(
    log_probs: Float[Tensor, "sentences rows vocabulary"], totals: Float[Tensor, "sentences rows"], k: int
) -> tuple[Float[Tensor, "sentences k"], Int[Tensor, "sentences k"], Int[Tensor, "sentences k"]]:
    """(totals + log_probs).topk(k) over all rows of each sentence, largest first: their sums, rows and ids.

    torch.topk on a CPU looks at all entries. Here the maxima of blocks are found first: the k largest entries are in
    the k blocks with the largest maxima.
    """
    sentences, rows, vocabulary = log_probs.shape
    block = block_size(log_probs)
    blocks = rows * vocabulary // block
    if block == 1 or blocks <= k:
        sums, flat = (totals[..., None] + log_probs).flatten(1).topk(k)
        return sums, flat // vocabulary, flat % vocabulary
    maxima = log_probs.view(sentences, rows, -1, block).amax(dim=3) + totals[..., None]
    chosen = maxima.flatten(1).topk(k).indices
    first = torch.arange(0, sentences * blocks, blocks)[:, None]
    candidates = log_probs.view(-1, block).index_select(0, (first + chosen).flatten()).view(sentences, k, block)
    row_totals = totals.gather(1, chosen * block // vocabulary)
    sums, places = (candidates + row_totals[..., None]).flatten(1).topk(k)
    flat = chosen.gather(1, places // block) * block + places % block
    return sums, flat // vocabulary, flat % vocabulary


def largest(log_probs: Float[Tensor, "rows vocabulary"]) -> Int[Tensor, " rows"]:
    """log_probs.argmax(dim=1), also for equal entries; on a CPU it finds the block with the largest maximum, and then
    searches only that block."""
    if (block := block_size(log_probs)) == 1:
        return log_probs.argmax(dim=1)
    blocks = log_probs.view(len(log_probs), -1, block)
    first = blocks.amax(dim=2).argmax(dim=1)
    return first * block + blocks[torch.arange(len(blocks), device=blocks.device), first].argmax(dim=1)
