"""Exports a translator as a folder for CTranslate2, an inference engine in C++, with that engine's own converter.

A model that CTranslate2 does not support is refused with the reason; all others compute the same there.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from ctranslate2.converters.utils import fuse_linear
from ctranslate2.specs import common_spec, transformer_spec
from torch import Tensor, nn

from transformer.data.tokenizer import BOS, EOS, UNK, Tokenizer
from transformer.model.attention import MultiHeadAttention
from transformer.model.config import ModelConfig
from transformer.model.layers import AddNorm, DecoderLayer, EncoderLayer
from transformer.model.transformer import Decoder, Encoder, Transformer
from transformer.tools.export import folder
from transformer.tools.export.supported import check_supported, dot_product_query
from transformer.tools.export.write import Export

POSITIONS = ("sinusoidal", "learned", "rotary", "none")
SCORES = ("dot", "scaled_dot", "bilinear")  # products of a (transformed) query and a key
ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "silu": common_spec.Activation.SWISH,
    "swiglu": common_spec.Activation.SWISH,
}


def _refused(setting: str, reason: str) -> ValueError:
    return ValueError(f"{setting} cannot be exported to CTranslate2: {reason}")


def check(config: ModelConfig) -> None:
    """Raises ValueError, with the setting, for a model that CTranslate2 does not support."""
    cross = config.decoder.cross_attention
    if cross is None:
        raise _refused("model.decoder.cross_attention=null", "its decoder reads the source")
    heads = config.decoder.self_attention.heads
    if cross.heads != heads:
        raise _refused(
            f"model.decoder.cross_attention.heads={cross.heads} beside {heads} of its self_attention",
            "its decoder has one number of heads",
        )
    check_supported(config, "CTranslate2", POSITIONS, SCORES, ACTIVATIONS)
    for name, attention in config.attentions().items():
        head_dim, value_dim = attention.head_dims(config.dim)
        if head_dim != value_dim:
            raise _refused(
                f"model.{name} with head_dim {head_dim} and value_dim {value_dim}",
                "its keys and values have the same width",
            )


def _empty_spec(config: ModelConfig) -> transformer_spec.TransformerSpec:
    """An empty specification; the widths of heads are set later, with each attention."""
    form = {
        "pre_norm": config.norm == "pre",
        "activation": ACTIVATIONS[config.feed_forward.activation],
        "ffn_glu": config.feed_forward.activation == "swiglu",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: the whole width of a head
        "head_dim": 0,
    }
    encoder, decoder = config.encoder, config.decoder
    return transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(encoder.layers, encoder.self_attention.heads, **form),
        transformer_spec.TransformerDecoderSpec(decoder.layers, decoder.self_attention.heads, **form),
    )


def _copy(weight: Any) -> Tensor:
    """A copy that the converter may change: it quantizes in place."""
    return weight.detach().cpu().clone()


def _norm(spec: common_spec.LayerNormSpec, norm: nn.Module) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _linear(spec: common_spec.LinearSpec, linear: nn.Module) -> None:
    spec.weight = _copy(linear.weight)
    if linear.bias is not None:
        spec.bias = _copy(linear.bias)


def _attention(spec: Any, attention: MultiHeadAttention, add_norm: AddNorm, fused: int) -> None:
    """The last `fused` of query, key and value go into one matrix: all three if they project the same states."""
    parts = [common_spec.LinearSpec() for _ in range(3)]
    for name, part in dot_product_query(attention).items():
        setattr(parts[0], name, part)
    _linear(parts[1], attention.key)
    _linear(parts[2], attention.value)
    if fused == 2:
        spec.linear[0] = parts[0]
    fuse_linear(spec.linear[3 - fused], parts[-fused:])
    _linear(spec.linear[-1], attention.output)
    _norm(spec.layer_norm, add_norm.norm)
    spec.queries_scale = attention.score.scale
    spec.head_dim = np.int32(attention.head_dim)


def _layer(spec: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    _attention(spec.self_attention, layer.self_attention, layer.add_norm_self, fused=3)
    if isinstance(layer, DecoderLayer) and layer.cross_attention is not None:
        _attention(spec.attention, layer.cross_attention, layer.add_norm_cross, fused=2)
    _norm(spec.ffn.layer_norm, layer.add_norm_feed.norm)
    feed = layer.feed_forward
    if feed.gate is not None:
        _linear(spec.ffn.linear_0, feed.gate)
        _linear(spec.ffn.linear_0_noact, feed.inner)
    else:
        _linear(spec.ffn.linear_0, feed.inner)
    _linear(spec.ffn.linear_1, feed.outer)


def _side(spec: Any, side: Encoder | Decoder, config: ModelConfig) -> None:
    embedding = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embedding.weight = _copy(side.embedding.tokens.weight)
    spec.scale_embeddings = side.embedding.scale
    if config.positions == "none":
        # Zeros, because without a table the engine would make its own.
        spec.position_encodings.encodings = torch.zeros(config.max_length, config.dim)
    elif config.positions != "rotary":
        spec.position_encodings.encodings = _copy(side.embedding.positions.table)
    if config.norm == "pre":
        _norm(spec.layer_norm, side.norm)
    for layer_spec, layer in zip(spec.layer, side.layers, strict=True):
        _layer(layer_spec, layer)


def write_engine(model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer], precision: str, into: Path) -> None:
    """Writes the engine's own files; `precision` is float32, float16, bfloat16 or int8. Raises the errors of
    `check`."""
    check(model.config)
    spec = _empty_spec(model.config)
    _side(spec.encoder, model.encoder, model.config)
    _side(spec.decoder, model.decoder, model.config)
    _linear(spec.decoder.projection, model.output)
    # The engine identifies tokens by name; the names of SentencePiece's pieces are unique.
    source, target = ([side.piece(id) for id in range(len(side))] for side in tokenizers)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    names = {"unk_token": UNK, "bos_token": BOS, "decoder_start_token": BOS, "eos_token": EOS}
    for name, id in names.items():
        setattr(spec.config, name, target[id])
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(str(into))


def write(export: Export) -> None:
    """Writes the folder of this format."""
    model, tokenizers = export.translator.model, export.translator.tokenizers

    def make(work: Path) -> None:
        write_engine(model, tokenizers, export.precision, work)

    folder.write(export.output, "ctranslate2", export.translator, make)
