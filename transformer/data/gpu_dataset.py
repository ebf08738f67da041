"""Batches made on a GPU, where all ids of a split lie: a step copies the numbers of its pairs, and nothing else."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from transformer.data.batching import Batch, Index
from transformer.data.prepared import PreparedSplit
from transformer.data.tokenizer import BEGIN, END, PADDING

# Bytes of ids that a GPU is asked to hold: some 100 million tokens.
MOST_BYTES = 1 << 29


class ResidentPairs(Dataset[Batch]):
    """The batches of `PairDataset`, gathered on `device`. Lengths and so shapes are known to the CPU: no step waits."""

    def __init__(self, split: PreparedSplit, device: torch.device) -> None:
        self.sides = [
            (torch.from_numpy(np.asarray(side.ids, np.int32)).to(device), torch.from_numpy(side.offsets).to(device))
            for side in (split.source, split.target)
        ]
        self.lengths, self.device = (split.source.lengths, split.target.lengths), device

    def __getitem__(self, index: Index) -> Batch:
        numbers = torch.from_numpy(index[1])
        rows = (numbers.pin_memory() if self.device.type == "cuda" else numbers).to(self.device, non_blocking=True)
        longest = [int(lengths[index[1]].max()) + 1 for lengths in self.lengths]
        source, labels = (self._ended(*side, rows, places) for side, places in zip(self.sides, longest, strict=True))
        inputs = functional.pad(labels.masked_fill(labels == END, PADDING)[:, :-1], (1, 0), value=BEGIN)
        padded = self.lengths[0][index[1]].min() + 1 < longest[0]
        return Batch(source, source != PADDING if padded else None, inputs, labels, numbers)

    def _ended(
        self, ids: Int[Tensor, " all"], offsets: Int[Tensor, " bounds"], rows: Int[Tensor, " batch"], longest: int
    ) -> Int[Tensor, "batch longest"]:
        """One side of the pairs, each with its end and then padding."""
        place = offsets[rows, None] + torch.arange(longest, device=self.device)
        end = offsets[rows + 1, None]
        found = ids[place.clamp(max=len(ids) - 1)].long()
        return torch.where(place < end, found, torch.where(place == end, END, PADDING))


def resident(train: PreparedSplit, device: torch.device) -> dict[str, Dataset[Batch]]:
    """What serves training where `device` is a GPU, the split small enough for it and the same in every epoch."""
    bytes_of_ids = 4 * (len(train.source.ids) + len(train.target.ids))
    serves = device.type == "cuda" and bytes_of_ids <= MOST_BYTES and type(train) is PreparedSplit
    return {"train": ResidentPairs(train, device)} if serves else {}
