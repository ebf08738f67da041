"""The key-value cache: what a decoder keeps from one step to the next, so that no position is computed twice.

In training the cache is empty and a whole target is one step. In a search a step takes one new id for each hypothesis.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.model.masks import SourceVisible

# A full buffer is copied into one with room for this number of further positions.
ROOM = 8


class KeyValues(NamedTuple):
    """The states that queries look at, projected once: keys to compare with, values to take."""

    keys: Float[Tensor, "batch heads keys head_dim"]
    values: Float[Tensor, "batch heads keys value_dim"]

    def select(self, rows: Tensor) -> KeyValues:
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class KVCache(NamedTuple):
    """Keys and values of the positions decoded so far: the first `length` of a buffer that may be longer."""

    buffer: KeyValues
    length: int

    @property
    def key_values(self) -> KeyValues:
        return KeyValues(self.buffer.keys[:, :, : self.length], self.buffer.values[:, :, : self.length])

    def update(self, new: KeyValues) -> KVCache:
        """Appends `new` in place; a full buffer is first copied into a larger one.

        The new cache may share its buffer with this one, which is not to be used again.
        """
        if not self.length:
            return KVCache(new, new.keys.size(2))
        end, buffer = self.length + new.keys.size(2), self.buffer
        if end > buffer.keys.size(2):
            buffer = KeyValues(*(full.new_empty(*full.shape[:2], end + ROOM, full.size(3)) for full in buffer))
            for larger, filled in zip(buffer, self.key_values, strict=True):
                larger[:, :, : self.length] = filled
        for target, latest in zip(buffer, new, strict=True):
            target[:, :, self.length : end] = latest
        return KVCache(buffer, end)

    def select(self, rows: Tensor) -> KVCache:
        return KVCache(self.buffer.select(rows), self.length)


class LayerCache(NamedTuple):
    """The cache of a decoder layer: keys and values of the target so far, one row for each hypothesis, and of the
    source, one row for each sentence."""

    target: KVCache
    source: KeyValues | None


class Cache(NamedTuple):
    """The state of the decoder between two steps: `Decoder.init_cache(memory)` makes the first one, each step the next.

    layers: the keys and values of each decoder layer
    memory_visible: `Memory.visible`
    length: how many positions have been decoded
    hypotheses: how many rows each sentence has; they are neighbors
    """

    layers: tuple[LayerCache, ...]
    memory_visible: SourceVisible | None
    length: int = 0
    hypotheses: int = 1

    def select(
        self, origins: Int[Tensor, "batch hypotheses"] | None, sentences: Int[Tensor, " sentences"] | None = None
    ) -> Cache:
        """Keeps `sentences` (None: all). `origins` says, for each new hypothesis of a sentence, which old one it
        continues (None: each continues itself)."""
        layers, memory_visible, length, hypotheses = self
        kept = sentences
        if kept is None:
            if origins is None:
                return self
            kept = torch.arange(origins.size(0), device=origins.device)
        if origins is None:
            origins = torch.arange(hypotheses, device=kept.device)[None]
        rows = (kept[:, None] * hypotheses + origins).flatten()
        if sentences is not None and memory_visible is not None:
            memory_visible = memory_visible[sentences]
        selected = []
        for target, source in layers:
            if sentences is not None and source is not None:
                source = source.select(sentences)
            selected.append(LayerCache(target.select(rows), source))
        return Cache(tuple(selected), memory_visible, length, origins.size(1))
