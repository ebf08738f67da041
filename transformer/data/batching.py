"""Batches of sentence pairs with similar lengths, limited by a number of tokens; only a few percent are padding."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset, Sampler

from transformer.data.encoded import Split
from transformer.data.mmap import IntArray
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.model.masks import padding_mask


class Batch(NamedTuple):
    """Padded ids. The decoder sees `inputs` and should predict `labels`: the same ids, one position later.

    `source_visible` is False at padding, and None if there is none; `indices` are the numbers of the pairs in their
    split, counted from 0.
    """

    source: Int[Tensor, "batch source"]
    source_visible: Bool[Tensor, "batch source"] | None
    inputs: Int[Tensor, "batch target"]
    labels: Int[Tensor, "batch target"]
    indices: Int[Tensor, " batch"]


def pad(sequences: Sequence[Sequence[int] | IntArray], width: int | None = None) -> Int[Tensor, "batch width"]:
    """Sequences as the rows of a matrix, padded to `width`, by default that of the longest.

    (NumPy fills 64 rows in 15 µs, torch's `pad_sequence` needs 140.)
    """
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    padded = np.full((len(sequences), lengths.max() if width is None else width), PAD, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(sequences)
    return torch.from_numpy(padded)


def _with_eos(padded: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
    """Puts the end symbol into the first padding of each row."""
    return padded.scatter_(1, (padded != PAD).sum(dim=1, keepdim=True), EOS)


def length_buckets(longest: int) -> IntArray:
    """Lengths for padding batches so that they have few shapes: 1, 2, …, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, …, four
    for each doubling, up to `longest`.

    On a CPU every new shape of a bf16 matrix multiplication needs a new kernel, which takes more time than the padding
    (docs/experiments.md).
    """
    lengths = np.arange(1, longest + 1)
    steps = 2 ** np.maximum(np.frexp(lengths)[1] - 3, 0)
    return lengths[(lengths % steps == 0) | (lengths == longest)]


def padded_length(length: int, buckets: IntArray | None) -> int:
    """The smallest of the `buckets` that is at least `length`; without buckets the length itself."""
    return length if buckets is None else int(buckets[np.searchsorted(buckets, length)])


def shift_right(labels: Int[Tensor, "batch target"]) -> Int[Tensor, "batch target"]:
    """The decoder's inputs for these `labels` (the target, then EOS): BOS, then the target. In figure 1 of Vaswani et
    al. 2017, "outputs (shifted right)"."""
    return functional.pad(labels.masked_fill(labels == EOS, PAD)[:, :-1], (1, 0), value=BOS)


def inputs_and_labels(
    targets: Sequence[Sequence[int]],
) -> tuple[Int[Tensor, "batch target"], Int[Tensor, "batch target"]]:
    """The ids that the decoder reads, and the ids that it should predict at the same positions."""
    labels = pad([[*target, EOS] for target in targets])
    return shift_right(labels), labels


Index = tuple[int, NDArray[np.int64]]  # the epoch, and the indices of a batch's pairs


class PairDataset(Dataset[Batch]):
    """The batches of a split: an index is an epoch and the indices of all pairs of a batch. Batches are padded to the
    longest sentence, or to one of the `buckets` (`length_buckets`)."""

    def __init__(self, split: Split, buckets: IntArray | None = None) -> None:
        self.split, self.buckets = split, buckets

    def __getitem__(self, index: Index) -> Batch:
        epoch, indices = index
        sources, targets = map(list, zip(*(self.split.pair(epoch, i) for i in indices.tolist()), strict=True))
        widths = [padded_length(max(map(len, side)) + 1, self.buckets) for side in (sources, targets)]
        source, labels = (_with_eos(pad(side, width)) for side, width in zip((sources, targets), widths, strict=True))
        return Batch(source, padding_mask(source, PAD), shift_right(labels), labels, torch.from_numpy(indices))


def make_batches(
    source_lengths: IntArray,
    target_lengths: IntArray,
    batch_tokens: int,
    random: np.random.Generator,
    buckets: IntArray | None = None,
) -> list[NDArray[np.int64]]:
    """Sorts the pairs by their longer side and cuts them into batches of at most `batch_tokens` = sentences × longest
    side. With `buckets` the longest side is padded to one of these.

    The end symbol (or the begin symbol) counts. Pairs of equal lengths come in random order. A pair that alone exceeds
    the limit is a batch of its own.
    """
    widths, difference = np.maximum(source_lengths, target_lengths) + 1, source_lengths - target_lengths
    ranks = widths if buckets is None else np.searchsorted(buckets, widths)
    # Pairs of one width are sorted by source length − target length, upwards in one width and downwards in the next: so
    # neighbors have similar lengths on both sides, even if their widths differ.
    np.negative(difference, out=difference, where=ranks % 2 == 0)
    order = np.lexsort((random.random(len(ranks)), difference, ranks))
    widths, start = (widths[order] if buckets is None else buckets[ranks[order]]), 0
    batches: list[NDArray[np.int64]] = []
    while start < len(order):
        most = max(1, batch_tokens // int(widths[start]))
        longest = widths[start : start + most]  # the longest side of a batch up to each pair
        size = max(1, int((longest * np.arange(1, len(longest) + 1) <= batch_tokens).sum()))
        batches.append(order[start : start + size])
        start += size
    return batches


def limited(batches: int, limit: int | float) -> int:
    """The number of `batches` that a limit leaves: the limit is a number of batches, or, as a float, a share."""
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


class TokenBudgetSampler(Sampler[Index]):
    """Distributes the batches of an epoch: every process forms and shuffles all of them in the same way and takes its
    share.

    In every epoch each process gets the same number of batches, a multiple of `accumulate`, so that all updates have
    equally many. For this the largest batches are halved. Each pair comes exactly once. (If pairs are segmented again
    in each epoch, a few are left out of an epoch in which they are much longer than in the first.) The order depends
    only on `seed` and the epoch; `start_at` says where a process continues. `buckets`: as in `make_batches`.
    """

    def __init__(
        self,
        split: Split,
        batch_tokens: int,
        seed: int,
        shuffle: bool,
        rank: int = 0,
        world_size: int = 1,
        accumulate: int = 1,
        buckets: IntArray | None = None,
    ) -> None:
        if len(split) < world_size:
            raise ValueError(f"{len(split)} sentences cannot be distributed to {world_size} processes")
        self.split, self.batch_tokens, self.seed, self.shuffle = split, batch_tokens, seed, shuffle
        self.rank, self.world_size, self.accumulate, self.buckets = rank, world_size, accumulate, buckets
        self.start_at(epoch=0)
        self.count = 0  # the number of batches of an epoch is not known until the first one is formed
        self.count = len(self._batches(epoch=0))
        if split.resampled_each_epoch:  # some more, for epochs with longer pairs than the first
            share = world_size * accumulate
            self.count += share * min(-(-self.count // (50 * share)), (len(split) - self.count) // share)

    def start_at(self, epoch: int, batch: int = 0) -> None:
        """The next iteration begins at this batch of this process in this epoch."""
        self.epoch, self.skipped = epoch, batch

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning's Trainer before each epoch."""
        self.start_at(epoch)

    def __len__(self) -> int:
        return self.count // self.world_size

    def __iter__(self) -> Iterator[Index]:
        # A generator, because Lightning sets the epoch after it has asked for the iterator.
        for batch in self._batches(self.epoch)[self.rank :: self.world_size][self.skipped :]:
            yield self.epoch, batch

    def _batches(self, epoch: int) -> list[NDArray[np.int64]]:
        random = np.random.default_rng([self.seed, epoch])
        source, target = self.split.lengths(epoch)
        batches = make_batches(source, target, self.batch_tokens, random, self.buckets)
        share = self.world_size * self.accumulate
        count = self.count or -(-len(batches) // share) * share
        while len(batches) < count:
            largest = max(range(len(batches)), key=lambda i: len(batches[i]))
            batch = batches[largest]
            if len(batch) == 1:
                raise ValueError(
                    f"a step takes {share} batches or more (trainer.devices={self.world_size} × "
                    f"trainer.accumulate_grad_batches={self.accumulate}), and there are {len(batches)} sentences: "
                    "lower these settings, or give more sentences"
                )
            batches[largest : largest + 1] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
        if self.shuffle:
            batches = [batches[i] for i in random.permutation(len(batches))]
        return batches[:count]


def batches_by_length(lengths: list[int], batch_tokens: int, workers: int = 1) -> list[list[int]]:
    """Indices in batches of similar length, longest first, so that a lack of memory is found at once.

    There are as many batches as `batch_tokens` requires, rounded up to a multiple of `workers`, all with nearly the
    same number of tokens: so all workers end at nearly the same time.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])

    def batches(tokens: int) -> list[list[int]]:
        found, start = [], 0
        while start < len(order):
            size = max(1, tokens // (lengths[order[start]] + 1))
            found.append(order[start : start + size])
            start += size
        return found

    rounds = math.ceil(len(batches(batch_tokens)) / workers)
    fewest_tokens = bisect_left(range(batch_tokens), True, key=lambda tokens: len(batches(tokens)) <= rounds * workers)
    return batches(fewest_tokens)
