"""The encoder-decoder Transformer (Vaswani et al. 2017): source ids and target ids in, logits of the next ids out."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.kernels.dropout import Dropout
from transformer.model.attention import AttentionRecord
from transformer.model.config import ModelConfig
from transformer.model.kv_cache import Cache
from transformer.model.layers import DecoderLayer, EncoderLayer
from transformer.model.masks import SourceVisible, causal_mask
from transformer.model.positions import EmbeddingPositions, NoPositions, ScorePositions, build_positions


class Memory(NamedTuple):
    """The encoded source, as `Transformer.encode` gives it.

    states: one vector for each source token, [batch, source, dim]
    visible: the padding mask as attention takes it, bool [batch, 1, 1, source], True at tokens; None: no padding
    """

    states: Float[Tensor, "batch source dim"]
    visible: SourceVisible | None


class Embedding(nn.Module):
    """Token embeddings scaled by √dim, plus positions, then dropout (sections 3.4, 3.5 and 5.4).

    Raises ValueError, naming the limit, for a sentence longer than `max_length`.
    """

    def __init__(self, vocab_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.scale, self.max_length = math.sqrt(config.dim), config.max_length
        self.tokens = nn.Embedding(vocab_size, config.dim)
        positions = build_positions(EmbeddingPositions, config.positions, config.dim, config.max_length)
        self.positions = positions or NoPositions(config.dim, config.max_length)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Int[Tensor, "batch length"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        if offset + ids.size(1) > self.max_length:
            raise ValueError(f"{offset + ids.size(1)} tokens are more than the model's {self.max_length} positions")
        return self.dropout(self.positions(self.tokens(ids) * self.scale, offset))


class Encoder(nn.Module):
    """Embedding and the stack of encoder layers (figure 1, left)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.source_vocab_size, config)
        self.position_bias = build_positions(ScorePositions, config.positions, config.encoder.self_attention.heads)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder.layers))
        # With pre-norm the sum of all layers is not normalized yet.
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        ids: Int[Tensor, "batch source"],
        visible: SourceVisible | None,
        record: AttentionRecord | None = None,
    ) -> Float[Tensor, "batch source dim"]:
        states, position_bias = self.embedding(ids), None
        if self.position_bias is not None:
            positions = torch.arange(ids.size(1), device=ids.device)
            position_bias = self.position_bias((positions[:, None] - positions)[None, None])
        for layer in self.layers:
            states = layer(states, visible, position_bias, record)
        return self.norm(states)


class Decoder(nn.Module):
    """Embedding and the stack of decoder layers (figure 1, right)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.target_vocab_size, config)
        self.position_bias = build_positions(ScorePositions, config.positions, config.decoder.self_attention.heads)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder.layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()

    def init_cache(self, memory: Memory) -> Cache:
        """The cache before the first target token; projects the source's keys and values, once per sentence."""
        layers = tuple(layer.init_cache(memory.states) for layer in self.layers)  # type: ignore[operator]
        return Cache(layers, memory.visible)

    def forward(
        self,
        ids: Int[Tensor, "rows length"],
        cache: Cache,
        record: AttentionRecord | None = None,
    ) -> tuple[Float[Tensor, "rows length dim"], Cache]:
        """Decodes `ids`, which continue the positions in `cache`. In training the cache is empty and `ids` are whole
        targets; in a search they are one new id per row (hypothesis).

        Returns the states of `ids` and the cache that includes them; do not use the given cache again.
        """
        offset, length = cache.length, ids.size(1)
        states, position_bias = self.embedding(ids, offset), None
        # A single new token may look at all tokens before it.
        visible = causal_mask(length, offset + length, ids.device) if length > 1 else None
        if self.position_bias is not None:
            positions = torch.arange(offset + length, device=ids.device)
            position_bias = self.position_bias((positions[offset:, None] - positions)[None, None])
        layers = []
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            states, layer_cache = layer(
                states, layer_cache, visible, cache.memory_visible, offset, position_bias, record
            )
            layers.append(layer_cache)
        return self.norm(states), cache._replace(layers=tuple(layers), length=offset + length)


def check_source(source: Tensor, visible: Tensor | None) -> None:
    """Raises ValueError for a source without tokens and a mask of another shape."""
    if source.size(1) == 0:
        raise ValueError("the source has no tokens: it ends with EOS, so it has at least that one")
    if visible is not None and visible.shape != source.shape:
        raise ValueError(
            f"source_visible has the shape {list(visible.shape)}, the source {list(source.shape)}: the mask has one "
            "entry for each id"
        )


class Transformer(nn.Module):
    """Encoder, decoder and the projection to logits, assembled as `config` says."""

    def __init__(self, config: ModelConfig) -> None:
        """New weights, drawn by torch's random state (torch.manual_seed)."""
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.dim, config.target_vocab_size, bias=config.output_bias)
        self._initialize()
        if config.decoder.cross_attention is None:
            # The source has no influence on the loss, so the encoder gets no gradients; DDP would wait for them.
            self.encoder.requires_grad_(False)
        if config.tied_embeddings != "none":
            self.output.weight = self.decoder.embedding.tokens.weight
        if config.tied_embeddings == "all":
            self.encoder.embedding.tokens.weight = self.decoder.embedding.tokens.weight

    def _initialize(self) -> None:
        """Xavier's uniform for every projection; embeddings get the variance 1 after they are scaled by √dim."""
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
        source_visible: Bool[Tensor, "batch source"] | None = None,
        record: AttentionRecord | None = None,
    ) -> Memory:
        """Encodes the source, once for all target tokens.

        `source` holds ids [batch, source]: sentences of different lengths, each with EOS at its end, are padded to the
        longest. `source_visible` is bool [batch, source], True at tokens and False at padding
        (`masks.padding_mask` makes it); None: no padding. `record` collects the attention weights.

        Returns states [batch, source, dim] and the mask, for `decode` and `Decoder.init_cache`. Raises ValueError for
        a source without tokens or of more than `max_length`, and for a mask of another shape.
        """
        check_source(source, source_visible)
        visible = None if source_visible is None else source_visible[:, None, None, :]
        return Memory(self.encoder(source, visible, record), visible)

    def decode(
        self, inputs: Int[Tensor, "batch target"], memory: Memory, record: AttentionRecord | None = None
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits, before the softmax, of the id after each input: all positions at once (teacher forcing).

        `inputs` are ids [batch, target] that begin with BOS: the target shifted right by one position (figure 1).
        Position i sees the inputs up to i and the whole `memory` of `encode`. Padding at the end of a target needs no
        mask: no real token comes after it; leave its positions out of the loss.

        Returns [batch, target, target_vocab_size]. Raises ValueError for inputs without tokens or of more than
        `max_length`, and for another number of targets than of sources.
        """
        return self.output(self.decode_hidden(inputs, memory, record))

    def decode_hidden(
        self, inputs: Int[Tensor, "batch target"], memory: Memory, record: AttentionRecord | None = None
    ) -> Float[Tensor, "batch target dim"]:
        """The states [batch, target, dim] before `output` turns them into logits: training does this block by block to
        save memory. The arguments and errors are those of `decode`."""
        if inputs.size(1) == 0:
            raise ValueError("a target has no tokens: inputs begin with BOS, so they have at least that one")
        if inputs.size(0) != memory.states.size(0):
            raise ValueError(f"{inputs.size(0)} targets but {memory.states.size(0)} sources: each target needs its own")
        # With an empty cache the whole target is new.
        states, _ = self.decoder(inputs, self.decoder.init_cache(memory), record)
        return states

    def step(self, ids: Int[Tensor, " rows"], cache: Cache) -> tuple[Float[Tensor, "rows vocabulary"], Cache]:
        """Logits, before the softmax, of the id after the newest one of each row, and the cache that includes it.

        `ids` [rows] hold one new id for each row (hypothesis): BOS at the first step, then the id that was chosen.
        `cache` is `decoder.init_cache(memory)` at the first step, then the one that the last step returned; do not use
        a cache twice. The rows of a sentence are neighbors, and each sentence has the same number: `Cache.select`
        chooses the hypotheses to continue. Not for training: keys and values are written in place.

        Returns logits [rows, target_vocab_size], equal to those of `decode` at the last position of the target.
        """
        states, cache = self.decoder(ids[:, None], cache)
        return self.output(states[:, -1]), cache

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        inputs: Int[Tensor, "batch target"],
        source_visible: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits, before the softmax, of the target id after each input: what a training step needs.

        `source` are ids [batch, source], each sentence with EOS at its end, and padding after it; `source_visible` is
        bool [batch, source], False at padding (None: no padding). `inputs` are ids [batch, target]: BOS, then the
        target. The labels are the target, then EOS. Returns [batch, target, target_vocab_size]. See `encode` and
        `decode`.
        """
        return self.decode(inputs, self.encode(source, source_visible))
