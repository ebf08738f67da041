"""Batches built on a GPU that holds all ids of a split: a step copies only the indices of its pairs."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import Dataset

from transformer.data.batching import Batch, Index, padded_length, shift_right
from transformer.data.encoded import EncodedSplit, Split
from transformer.data.mmap import IntArray
from transformer.data.tokenizer import EOS, PAD
from transformer.model.masks import padding_mask

# The most bytes of ids to put on a GPU: about 100 million tokens.
MAX_BYTES_ON_GPU = 1 << 29


class GPUPairDataset(Dataset[Batch]):
    """The batches of `PairDataset`, gathered on `device`. The CPU knows all shapes, so it need not wait for a step."""

    def __init__(self, split: EncodedSplit, device: torch.device, buckets: IntArray | None = None) -> None:
        self.sides = [
            (
                torch.from_numpy(np.asarray(side.ids, np.int32)).to(device),
                torch.from_numpy(np.array(side.offsets)).to(device),
            )
            for side in (split.source, split.target)
        ]
        self.lengths, self.device, self.buckets = (split.source.lengths, split.target.lengths), device, buckets

    def __getitem__(self, index: Index) -> Batch:
        indices = torch.from_numpy(index[1])
        rows = (indices.pin_memory() if self.device.type == "cuda" else indices).to(self.device, non_blocking=True)
        longest = [padded_length(int(lengths[index[1]].max()) + 1, self.buckets) for lengths in self.lengths]
        source, labels = (self._rows(*side, rows, length) for side, length in zip(self.sides, longest, strict=True))
        has_padding = bool(self.lengths[0][index[1]].min() + 1 < longest[0])
        return Batch(source, padding_mask(source, PAD, has_padding), shift_right(labels), labels, indices)

    def _rows(
        self, ids: Int[Tensor, " all"], offsets: Int[Tensor, " bounds"], rows: Int[Tensor, " batch"], longest: int
    ) -> Int[Tensor, "batch longest"]:
        """One side of the pairs: each its ids, the end symbol, then padding."""
        position = offsets[rows, None] + torch.arange(longest, device=self.device)
        end = offsets[rows + 1, None]
        gathered = ids[position.clamp(max=len(ids) - 1)].long()
        return torch.where(position < end, gathered, torch.where(position == end, EOS, PAD))


def gpu_datasets(train: Split, device: torch.device, buckets: IntArray | None) -> dict[str, Dataset[Batch]]:
    """The training split as a GPUPairDataset, if `device` is a GPU and the split fits and is the same in every
    epoch."""
    if device.type != "cuda" or not isinstance(train, EncodedSplit):
        return {}
    bytes_of_ids = 4 * (len(train.source.ids) + len(train.target.ids))
    return {"train": GPUPairDataset(train, device, buckets)} if bytes_of_ids <= MAX_BYTES_ON_GPU else {}
