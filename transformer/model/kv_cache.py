"""What a decoder keeps from one step to the next, so that no position is computed twice: a key-value cache.

In training the cache is empty and a whole target is one step: `Cache.next_mask` then gives the causal mask. In a search
a step takes one new id for each hypothesis.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.model.masks import SourceVisible, Visible, causal_mask


class KeyValues(NamedTuple):
    """The states that queries look at, projected once: keys to compare with, values to take."""

    keys: Float[Tensor, "batch heads keys head_dim"]
    values: Float[Tensor, "batch heads keys value_dim"]

    def select(self, sentences: Tensor) -> KeyValues:
        return KeyValues(self.keys[sentences], self.values[sentences])


class KVCache(NamedTuple):
    """Keys and values of the positions decoded so far: the first `length` of a buffer that may be longer."""

    buffer: KeyValues
    length: int

    @property
    def key_values(self) -> KeyValues:
        return KeyValues(self.buffer.keys[:, :, : self.length], self.buffer.values[:, :, : self.length])

    def update(self, new: KeyValues) -> KVCache:
        """Appends `new` in place; a full buffer is first copied into one of twice the size needed.

        The new cache may share its buffer with this one, which is not to be used again.
        """
        if not self.length:
            return KVCache(new, new.keys.size(2))
        end, buffer = self.length + new.keys.size(2), self.buffer
        if end > buffer.keys.size(2):
            buffer = KeyValues(*(full.new_empty(*full.shape[:2], 2 * end, full.size(3)) for full in buffer))
            for larger, filled in zip(buffer, self.key_values, strict=True):
                larger[:, :, : self.length] = filled
        for target, latest in zip(buffer, new, strict=True):
            target[:, :, self.length : end] = latest
        return KVCache(buffer, end)

    def select(self, sentences: Tensor) -> KVCache:
        return KVCache(self.buffer.select(sentences), self.length)


class LayerCache(NamedTuple):
    """What a decoder layer need not compute again: keys and values of the target so far, and of the source."""

    target: KVCache
    source: KeyValues | None

    def select(self, sentences: Tensor) -> LayerCache:
        source = None if self.source is None else self.source.select(sentences)
        return LayerCache(self.target.select(sentences), source)


def hypotheses_per_sentence(rows: int, sentences: int) -> int:
    """How many rows (hypotheses) of a step each sentence has. Raises ValueError where they are not equally many."""
    if rows == sentences:
        return 1
    if rows % sentences:
        raise ValueError(
            f"{rows} rows cannot be shared out among the {sentences} sentences of the cache: a step takes equally many "
            "ids (hypotheses) for every sentence"
        )
    return rows // sentences


class Cache(NamedTuple):
    """The state of the decoder between two steps: `Decoder.init_cache(memory)` makes the first one, each step the next.

    layers: the keys and values of each decoder layer
    memory_visible: `Memory.visible`
    length: how many positions have been decoded
    ancestry: which of the decoded positions each hypothesis may look at, bool [batch, 1, hypotheses, keys]

    The target keys of all hypotheses of a sentence (neighboring rows) stand in one list: with beam 5 each step appends
    five. `ancestry` is True where a key is a hypothesis' own past. When the beam is reordered, only this mask changes;
    keys and values stay where they are. (docs/experiments.md compares this with moving them at every step.)
    """

    layers: tuple[LayerCache, ...]
    memory_visible: SourceVisible | None
    length: int
    ancestry: Bool[Tensor, "batch 1 hypotheses keys"]

    def select(
        self, origins: Int[Tensor, "batch hypotheses"] | None, sentences: Int[Tensor, " sentences"] | None = None
    ) -> Cache:
        """Keeps `sentences` (None: all); `origins` says which hypothesis each one of a sentence continues."""
        layers, memory_visible, length, ancestry = self
        if sentences is not None:
            layers = tuple(layer.select(sentences) for layer in layers)
            memory_visible = None if memory_visible is None else memory_visible[sentences]
            ancestry = ancestry[sentences]
        if origins is not None:
            ancestry = ancestry.take_along_dim(origins[:, None, :, None], dim=2)
        return Cache(layers, memory_visible, length, ancestry)

    def next_mask(self, rows: int, length: int) -> tuple[Visible | None, Bool[Tensor, "batch 1 hypotheses keys"]]:
        """What the next `length` positions of each row may look at, and the ancestry after them."""
        sentences, _, _, keys = self.ancestry.shape
        hypotheses = hypotheses_per_sentence(rows, sentences)
        if hypotheses == 1 and keys == self.length:
            # There was never more than one hypothesis per sentence (training, greedy search, the first step of a beam):
            # every key is its past, and a single new token may look at all of it, without a mask.
            visible = causal_mask(length, keys + length, self.ancestry.device) if length > 1 else None
            return visible, self.ancestry.new_ones(sentences, 1, 1, keys + length)
        # Several hypotheses with one new token each: each sees its own past and its own new key.
        newest = torch.eye(hypotheses, dtype=torch.bool, device=self.ancestry.device).expand(sentences, 1, -1, -1)
        ancestry = torch.cat([self.ancestry.expand(-1, -1, hypotheses, -1), newest], dim=3)
        return ancestry, ancestry


def next_distances(
    ancestry: Bool[Tensor, "batch 1 hypotheses keys"], offset: int, length: int
) -> Int[Tensor, "_ 1 queries keys"]:
    """How many positions each visible key stands before each of the `length` queries from position `offset` on."""
    queries = torch.arange(offset, offset + length, device=ancestry.device)
    if length > 1:  # one hypothesis per sentence, its keys in their order
        return (queries[:, None] - torch.arange(ancestry.size(3), device=ancestry.device))[None, None]
    # Counting its own keys gives a hypothesis their positions; those of other keys mean nothing, and are masked.
    return queries - (ancestry.cumsum(dim=3) - 1)
