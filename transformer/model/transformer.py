"""The encoder-decoder Transformer (Vaswani et al. 2017): source ids and target ids in, logits of the next ids out."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.model.attention import SourceVisible, Visible, causal_visible
from transformer.model.config import ModelConfig
from transformer.model.dropout import Dropout
from transformer.model.layers import DecoderLayer, EncoderLayer, LayerCache
from transformer.model.positions import Learned, NoPositions, Sinusoidal


class Memory(NamedTuple):
    """The encoded source and which of its positions are real (None: all of them)."""

    states: Float[Tensor, "batch source dim"]
    visible: SourceVisible | None


class Cache(NamedTuple):
    """Where decoding stands: per layer the keys and values of source and target, and how many positions were decoded.

    The hypotheses of a sentence (neighboring rows) share its keys and values, those of the target too. What was
    written never moves: `said` marks which of the sentence's target keys are each hypothesis' own past.
    """

    layers: tuple[LayerCache, ...]
    source_visible: SourceVisible | None
    length: int
    said: Bool[Tensor, "sentences 1 hypotheses keys"]

    def select(
        self, origins: Int[Tensor, "sentences hypotheses"] | None, sentences: Int[Tensor, " sentences"] | None = None
    ) -> Cache:
        """Keeps `sentences` where some have left; `origins` are the places of the hypotheses that go on in each."""
        layers, visible, length, said = self
        if sentences is not None:
            layers = tuple(layer.select(sentences) for layer in layers)
            visible, said = visible if visible is None else visible[sentences], said[sentences]
        if origins is not None:
            said = said.take_along_dim(origins[:, None, :, None], dim=2)
        return Cache(layers, visible, length, said)

    def extended(self, rows: int, length: int) -> tuple[Visible | None, Bool[Tensor, "sentences 1 hypotheses keys"]]:
        """What the next `length` positions of each row may look at, and what `said` is after them."""
        sentences, _, _, keys = self.said.shape
        if rows == sentences:
            # All that was said is the past of the one hypothesis; a single new token may look at all of it: no mask.
            visible = causal_visible(length, keys + length, self.said.device) if length > 1 else None
            return visible, self.said.new_ones(sentences, 1, 1, keys + length)
        own = torch.eye(rows // sentences, dtype=torch.bool, device=self.said.device).expand(sentences, 1, -1, -1)
        said = torch.cat([self.said.expand(-1, -1, own.size(2), -1), own], dim=3)
        return said, said


class AttentionRecord(NamedTuple):
    """The weights of all layers, batch × heads × queries × keys each: what pictures show."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Embedding(nn.Module):
    """Token embeddings scaled by √dim, plus positions, then dropout (section 3.4 and 5.4).

    Raises ValueError, naming the limit, for a sentence longer than `max_length`.
    """

    def __init__(self, vocabulary: int, config: ModelConfig) -> None:
        super().__init__()
        self.scale, self.max_length = math.sqrt(config.dim), config.max_length
        self.tokens = nn.Embedding(vocabulary, config.dim)
        self.positions: nn.Module
        if config.positions == "sinusoidal":
            self.positions = Sinusoidal(config.dim, config.max_length)
        elif config.positions == "learned":
            self.positions = Learned(config.dim, config.max_length)
        else:
            self.positions = NoPositions()
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Int[Tensor, "batch length"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        if offset + ids.size(1) > self.max_length:
            raise ValueError(f"{offset + ids.size(1)} tokens are more than the model's {self.max_length} positions")
        return self.dropout(self.positions(self.tokens(ids) * self.scale, offset))


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.source_vocab_size, config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder.layers))
        # Pre-norm leaves the sum of all layers unnormalized.
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(
        self, ids: Int[Tensor, "batch source"], visible: SourceVisible | None, record: list[Tensor] | None = None
    ) -> Float[Tensor, "batch source dim"]:
        states = self.embedding(ids)
        for layer in self.layers:
            states = layer(states, visible, record)
        return self.norm(states)


class Decoder(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.target_vocab_size, config)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder.layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def start(self, memory: Memory) -> Cache:
        """Projects the source's keys and values for every layer, once a sentence."""
        said = torch.ones(len(memory.states), 1, 1, 0, dtype=torch.bool, device=memory.states.device)
        return Cache(tuple(layer.start(memory.states) for layer in self.layers), memory.visible, 0, said)  # type: ignore[operator]

    def forward(
        self,
        ids: Int[Tensor, "rows length"],
        cache: Cache,
        record: tuple[list[Tensor], list[Tensor]] | None = None,
    ) -> tuple[Float[Tensor, "rows length dim"], Cache]:
        """Takes `ids` as the continuation of what `cache` holds; a whole target at once is the case of an empty one.

        With several hypotheses a sentence, one id a row. The cache given is not to be used again.
        """
        offset, seen = cache.length, cache.said.size(3)
        states = self.embedding(ids, offset)
        visible, said = cache.extended(*ids.shape)
        layers = []
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            states, layer_cache = layer(states, layer_cache, visible, cache.source_visible, offset, seen, record)
            layers.append(layer_cache)
        return self.norm(states), Cache(tuple(layers), cache.source_visible, offset + ids.size(1), said)


class Transformer(nn.Module):
    """Encoder, decoder and the projection to logits, assembled as `config` says."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.dim, config.target_vocab_size, bias=False)
        self._initialize()
        if config.decoder.cross_attention is None:
            # Nothing of the source reaches the loss: no process waits for gradients of the encoder.
            self.encoder.requires_grad_(False)
        if config.tied_embeddings != "none":
            self.output.weight = self.decoder.embedding.tokens.weight
        if config.tied_embeddings == "all":
            self.encoder.embedding.tokens.weight = self.decoder.embedding.tokens.weight

    def _initialize(self) -> None:
        """Xavier's uniform for every projection; embeddings such that, scaled by √dim, they have variance 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.dim**-0.5)

    def encode(
        self,
        source: Int[Tensor, "batch source"],
        real: Bool[Tensor, "batch source"] | None = None,
        record: AttentionRecord | None = None,
    ) -> Memory:
        """Encodes padded source ids; `real` is False at padding, None where there is none."""
        visible = None if real is None else real[:, None, None, :]
        return Memory(self.encoder(source, visible, record.encoder if record else None), visible)

    def decode(
        self, inputs: Int[Tensor, "batch target"], memory: Memory, record: AttentionRecord | None = None
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of the id after each input, all at once (teacher forcing)."""
        return self.output(self.states(inputs, memory, record))

    def states(
        self, inputs: Int[Tensor, "batch target"], memory: Memory, record: AttentionRecord | None = None
    ) -> Float[Tensor, "batch target dim"]:
        """What `output` makes logits of. Padding at the end of a target needs no mask: nothing real comes after it."""
        of_decoder = (record.decoder, record.cross) if record else None
        states, _ = self.decoder(inputs, self.decoder.start(memory), of_decoder)
        return states

    def step(self, ids: Int[Tensor, " rows"], cache: Cache) -> tuple[Float[Tensor, "rows vocabulary"], Cache]:
        """Logits of the id after the newest one of each row, and the cache that now knows it."""
        states, cache = self.decoder(ids[:, None], cache)
        return self.output(states[:, -1]), cache

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        inputs: Int[Tensor, "batch target"],
        real: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        return self.decode(inputs, self.encode(source, real))
