"""The model of a search on a CPU: it computes what `Transformer` does, in fewer and larger operations.

Where one sentence is translated, most of a step is not arithmetic: weights are read, and hundreds of small operations
are called (docs/speed.md). Here one matrix multiplication computes query, key and value; activations and residual
connections are part of a matrix multiplication; keys and values are written once, into buffers with capacity for more.

To understand the model, read `model.transformer`. What this model does not support runs there. So does every search
once the two could disagree: when they give different results at loading (somebody has changed an equation in `model`),
or when a part, a number or a function of the model has been replaced since.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from transformer.inference.fast_layers import FastDecoderLayer, FastEncoderLayer, Source, Target
from transformer.model import attention, dropout, kv_cache, layers, masks, packed, positions, scores, transformer
from transformer.model.kv_cache import hypotheses_per_sentence
from transformer.model.packed import FUSED_ACTIVATIONS, PackedLinear
from transformer.model.transformer import Transformer, check_source

# What layers may be made of. Anything else in them, as another score or rotary positions, is not known here.
KNOWN_MODULES = (
    *(nn.ModuleList, layers.EncoderLayer, layers.DecoderLayer, layers.FeedForward, layers.AddNorm, nn.LayerNorm),
    *(attention.MultiHeadAttention, scores.DotProduct, scores.ScaledDotProduct, PackedLinear, dropout.Dropout),
)
ACTIVATIONS = {*FUSED_ACTIVATIONS, "swiglu"}
# The first buffers have capacity for as many tokens as the source has, and so many more.
EXTRA_CAPACITY = 8

log = logging.getLogger(__name__)


@dataclass
class FastCache:
    """`model.kv_cache.Cache`, changed in place: its keys are transposed, and its buffers have capacity for more.

    score_mask: the ancestry, as it is added to scores: 0 at the keys of a hypothesis' own past, -inf at those of others
    sources: of each layer; None without cross-attention
    source_length: with padding
    length: how many positions have been decoded
    """

    keys: Float[Tensor, "layers sentences heads head_dim capacity"]
    values: Float[Tensor, "layers sentences heads capacity value_dim"]
    score_mask: Float[Tensor, "sentences hypotheses keys"]
    sources: list[Source | None]
    source_length: int
    length: int = 0

    def select(
        self, origins: Int[Tensor, "sentences hypotheses"] | None, sentences: Int[Tensor, " sentences"] | None = None
    ) -> FastCache:
        """As `Cache.select`, but in place."""
        if sentences is not None:
            self.keys, self.values = self.keys[:, sentences], self.values[:, sentences]
            self.score_mask = self.score_mask[sentences]
            self.sources = [None if source is None else source.select(sentences) for source in self.sources]
        if origins is not None:
            self.score_mask = self.score_mask.take_along_dim(origins[:, :, None], dim=1)
        return self

    def extend(self, hypotheses: int) -> Iterator[Target]:
        """Makes places for the new keys and values of so many hypotheses a sentence; yields those of each layer."""
        sentences, _, keys_before = self.score_mask.shape
        end = keys_before + hypotheses
        if end > self.keys.size(4):
            # The first step has one hypothesis a sentence: how many there will be, only the second tells.
            capacity = max(2 * end, hypotheses * (self.source_length + EXTRA_CAPACITY)) if keys_before else end
            keys, values = self.keys, self.values
            self.keys = keys.new_empty(*keys.shape[:4], capacity)
            self.values = values.new_empty(*values.shape[:3], capacity, values.size(4))
            self.keys[..., :keys_before] = keys[..., :keys_before]
            self.values[:, :, :, :keys_before] = values[:, :, :, :keys_before]
        own = self.score_mask.new_full((hypotheses, hypotheses), -math.inf).fill_diagonal_(0)
        self.score_mask = torch.cat([self.score_mask.expand(-1, hypotheses, -1), own.expand(sentences, -1, -1)], dim=2)
        return map(
            Target,
            self.keys[..., keys_before:end].unbind(),
            self.values[:, :, :, keys_before:end].unbind(),
            self.keys[..., :end].unbind(),
            self.values[:, :, :, :end].unbind(),
        )


def _hooks(module: nn.Module) -> list[object]:
    """The hooks of a module: functions that see, and may change, what goes through it."""
    return [*module._forward_pre_hooks, *module._forward_hooks]


def _fingerprint(module: nn.Module) -> tuple[object, ...]:
    """Changes with the numbers, functions, parts and weights of a module, with training, and with its hooks. (What is
    written into `weight.data` leaves no sign.)"""
    weights = [weight for weight in module._parameters.values() if weight is not None]
    counts = [number for weight in weights for number in (weight.data_ptr(), weight._version)]
    attributes = [
        value
        for name, value in vars(module).items()
        if name[0] != "_" and (isinstance(value, (int, float)) or callable(value))
    ]
    return (*attributes, *module._modules.values(), *_hooks(module), *counts)


def _equations() -> list[tuple[Mapping[str, object], str, object]]:
    """All functions and methods in the files of `model` that a step goes through, each after the namespace and the name
    under which it stands: once another function stands there, the equations have changed."""
    files = (attention, dropout, kv_cache, layers, masks, packed, positions, scores, transformer)
    names = [vars(file) for file in files]
    own = [one for of_file in names for one in of_file.values() if isinstance(one, type)]
    classes = [vars(one) for one in own if one.__module__.startswith("transformer.model")]
    return [(of_one, name, value) for of_one in (*names, *classes) for name, value in of_one.items() if callable(value)]


class FastTransformer:
    """Encodes sources and makes the steps of a search, as `model` does, whose weights and embeddings it shares."""

    def __init__(self, model: Transformer) -> None:
        self.model, activation = model, model.config.feed_forward.activation
        self.encoder_layers = [FastEncoderLayer(cast(Any, layer), activation) for layer in model.encoder.layers]
        self.decoder_layers = [FastDecoderLayer(cast(Any, layer), activation) for layer in model.decoder.layers]
        self._watched, self._equations = list(model.modules()), _equations()
        self._built_from = list(map(_fingerprint, self._watched))

    @classmethod
    def of(cls, model: Transformer) -> FastTransformer | None:
        """The fast model of `model`; None where its parts are not known here, or the results of both differ."""
        if not cls.supports(model):
            return None
        fast = cls(model)
        if fast.agrees():
            return fast
        log.warning(
            "translating with the plain model, which is slower: inference/fast_layers.py gives other results; change "
            "the equations there too"
        )
        return None

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Whether all choices of the model are known here, its weights are packed, and it has no hooks."""
        inner = [module for stack in (model.encoder, model.decoder) for module in stack.layers.modules()]
        return (
            all(type(module) in KNOWN_MODULES for module in inner)
            and all(module.packed_matmul() is not None for module in inner if isinstance(module, PackedLinear))
            and not any(module.training or _hooks(module) for module in model.modules())
            and model.encoder.position_bias is None
            and model.decoder.position_bias is None
            and model.config.feed_forward.activation in ACTIVATIONS
        )

    def __getstate__(self) -> dict[str, object]:
        # A copy's own weights are not packed.
        return {"model": self.model, "_watched": [], "_equations": [], "_built_from": None}

    def applies_to(self, model: Transformer) -> bool:
        """Whether it still computes what `model` does: if that is the model it was built from, unchanged since, and is
        used without gradients."""
        return (
            model is self.model
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and not (_global_forward_pre_hooks or _global_forward_hooks)
            and all(names.get(name) is value for names, name, value in self._equations)
            and list(map(_fingerprint, self._watched)) == self._built_from
        )

    @torch.no_grad()
    def agrees(self) -> bool:
        """Whether a small search, with padding and several hypotheses, has the results of `model`, up to rounding."""
        model, config = self.model, self.model.config
        length, vocabulary = min(4, config.max_length), min(config.source_vocab_size, config.target_vocab_size)
        ids = torch.arange(1, 2 * length + 1) % vocabulary
        source, visible = ids.view(2, length), torch.tensor([[True] * length, [True] + [False] * (length - 1)])
        origins = torch.tensor([[[0, 0], [0, 0]], [[1, 0], [1, 1]]])

        def search(stepping: Any, state: Any) -> Tensor:
            logits, state = stepping.step(ids[:2], state)
            for position, chosen in zip(range(1, length), origins, strict=False):
                next_logits, state = stepping.step(ids.roll(position)[:4], state.select(chosen))
                logits = torch.cat([logits, next_logits])
            return logits.float()

        plain = search(model, model.decoder.init_cache(model.encode(source, visible)))
        difference = search(self, self.encode_and_init_cache(source, visible)) - plain
        # Weights that give NaN are reported when they are used.
        return not difference.norm() > torch.finfo(model.output.weight.dtype).eps ** 0.5 * plain.norm()

    def encode_and_init_cache(
        self, source: Int[Tensor, "sentences source"], visible: Bool[Tensor, "sentences source"] | None
    ) -> FastCache:
        """Encodes the source; takes and raises what `Transformer.encode` does."""
        check_source(source, visible)
        config, (sentences, length) = self.model.config, source.shape
        states, score_mask = self.model.encoder.embedding(source).flatten(0, 1), None
        if visible is not None:
            score_mask = states.new_zeros(visible.shape).masked_fill_(~visible, -math.inf)[:, None, None]
        for layer in self.encoder_layers:
            states = layer(states, sentences, score_mask)
        memory = self.model.encoder.norm(states)
        sources = [layer.source(memory, sentences, score_mask) for layer in self.decoder_layers]
        target, count = config.decoder.self_attention, len(self.decoder_layers)
        head_dim, value_dim = target.head_dims(config.dim)
        keys = memory.new_empty(count, sentences, target.heads, head_dim, 0)
        values = memory.new_empty(count, sentences, target.heads, 0, value_dim)
        return FastCache(keys, values, memory.new_empty(sentences, 1, 0), sources, length)

    @torch.no_grad()
    def step(self, ids: Int[Tensor, " rows"], cache: FastCache) -> tuple[Float[Tensor, "rows vocabulary"], FastCache]:
        """As `Transformer.step` does."""
        hypotheses = hypotheses_per_sentence(len(ids), len(cache.score_mask))
        states = self.model.decoder.embedding(ids[:, None], cache.length).flatten(0, 1)
        targets = cache.extend(hypotheses)
        # Where there was never more than one hypothesis, it sees all keys.
        score_mask = cache.score_mask[:, None] if cache.score_mask.size(2) > cache.length + 1 else None
        for layer, target, source in zip(self.decoder_layers, targets, cache.sources, strict=True):
            states = layer(states, target, source, score_mask)
        cache.length += 1
        return self.model.output(self.model.decoder.norm(states)), cache
