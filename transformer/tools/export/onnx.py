"""Exports a translator as two ONNX graphs, for programs in any language: the encoder, and one step of the decoder.

The caller does the search. `encoder.onnx` runs once per batch, `decoder_step.onnx` once per token; the state of the
decoder is an input and an output of each step:

    encoder.onnx        source (batch × source), source_visible (batch × source, False at padding)
                        → source_keys_i, source_values_i of every decoder layer i (batch × heads × source × width)
    decoder_step.onnx   ids (batch: the newest token of each), source_visible, source_keys_i, source_values_i,
                        keys_i, values_i (batch × heads × past × width; past is 0 at the begin symbol)
                        → logits (batch × vocabulary), new_keys_i, new_values_i (with one more past)

A source ends with the end symbol; each row of a batch is one hypothesis.
"""

import copy
import logging
import warnings
from pathlib import Path
from typing import Any

import onnxscript  # noqa: F401  (needed by torch's exporter: an import error here comes before any work)
import torch
from torch import Tensor, nn
from torch.export import Dim

from transformer.data.tokenizer import BOS, EOS
from transformer.model.kv_cache import Cache, KeyValues, KVCache, LayerCache
from transformer.model.transformer import Transformer
from transformer.tools.export import folder
from transformer.tools.export.supported import check_supported
from transformer.tools.export.write import Export

OLDEST_TORCH = "2.11"  # older releases cannot trace the steps of a decoder
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")
# additive is missing: its number of blocks depends on the lengths, and a graph has a fixed number.
SCORES = ("dot", "scaled_dot", "bilinear", "concat")
ACTIVATIONS = ("relu", "gelu", "silu", "swiglu")
# Lengths of the examples for tracing the graphs. They differ, so that torch does not mix them up.
SOURCE_LENGTH, PAST_LENGTH = 7, 5


class ConcatenatedKVCache(KVCache):
    """A cache that grows by a copy: a graph has no buffer to write into."""

    @property
    def key_values(self) -> KeyValues:
        return self.buffer

    def update(self, new: KeyValues) -> KVCache:
        keys, values = (torch.cat(pair, dim=2) for pair in zip(self.buffer, new, strict=True))
        return ConcatenatedKVCache(KeyValues(keys, values), keys.size(2))


class EncoderGraph(nn.Module):
    """From source ids to the projected keys and values of every decoder layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_visible: Tensor) -> tuple[Tensor, ...]:
        cache = self.model.decoder.init_cache(self.model.encode(source, source_visible))
        return tuple(tensor for layer in cache.layers for tensor in layer.source or ())


class StepGraph(nn.Module):
    """One more token of every row; `tensors` are the outputs of the encoder's graph, then past keys and values."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, source_visible: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        half = len(tensors) // 2
        past = tensors[half].size(2)
        layers = []
        for first in range(0, half, 2):
            target = ConcatenatedKVCache(KeyValues(*tensors[half + first : half + first + 2]), past)
            layers.append(LayerCache(target, KeyValues(*tensors[first : first + 2])))
        logits, cache = self.model.step(ids, Cache(tuple(layers), source_visible[:, None, None], past))
        return logits, *(tensor for layer in cache.layers for tensor in layer.target.buffer)


def _write(
    graph: nn.Module,
    examples: tuple[Tensor, ...],
    shapes: dict[str, Any],
    inputs: list[str],
    outputs: list[str],
    path: Path,
) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec.*", FutureWarning)  # from torch itself
        # Without strict, `len` of a tensor would turn the batch size into a constant.
        program = torch.export.export(graph, examples, dynamic_shapes=shapes, strict=True)
        # Not optimized here: runtimes do that when they load a graph, and torch's optimizer fails on some of ours.
        torch.onnx.export(
            program,
            (),
            path,
            input_names=inputs,
            output_names=outputs,
            dynamo=True,
            optimize=False,
            external_data=False,
            verbose=False,
        )


def write_graphs(model: Transformer, into: Path) -> None:
    """Writes both graphs, in float32.

    Raises ValueError, with the setting, for a model that no graph can express, and for a torch that is too old.
    """
    config = model.config
    if config.decoder.cross_attention is None:
        raise ValueError("model.decoder.cross_attention=null cannot be exported to ONNX: it has no encoder to export")
    check_supported(config, "ONNX", POSITIONS, SCORES, ACTIVATIONS)
    if config.max_length < SOURCE_LENGTH:
        raise ValueError(
            f"model.max_length={config.max_length} cannot be exported to ONNX: it supports {SOURCE_LENGTH} and more"
        )
    if torch.__version__ < OLDEST_TORCH:
        raise ValueError(f"onnx needs torch {OLDEST_TORCH} or later, this is {torch.__version__}: upgrade torch")
    # The exporter logs every step, and every library that it does not need.
    for name in ("torch.onnx", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)
    model = copy.deepcopy(model).cpu().float()
    parts = [f"{part}_{layer}" for layer in range(config.decoder.layers) for part in ("keys", "values")]
    of_source = [f"source_{part}" for part in parts]
    batch = Dim("batch", max=2**31 - 1)  # older releases of torch need this limit
    by_source, by_past = Dim("source", max=config.max_length), Dim("past", max=config.max_length - 1)
    source, source_visible = torch.full((2, SOURCE_LENGTH), EOS), torch.ones(2, SOURCE_LENGTH, dtype=torch.bool)
    shapes: dict[str, Any] = {"source": {0: batch, 1: by_source}, "source_visible": {0: batch, 1: by_source}}
    graph: nn.Module = EncoderGraph(model).eval()
    with torch.no_grad():
        _write(graph, (source, source_visible), shapes, list(shapes), of_source, into / "encoder.onnx")
        tensors = [tensor.clone() for tensor in graph(source, source_visible)]
        for layer in model.decoder.layers:
            tensors += layer.self_attention.project_kv(torch.zeros(2, PAST_LENGTH, config.dim))  # type: ignore[operator, union-attr]
        shapes = {"ids": {0: batch}, "source_visible": shapes["source_visible"]}
        names = [*shapes, *of_source, *parts]
        shapes["tensors"] = (*[{0: batch, 2: by_source}] * len(parts), *[{0: batch, 2: by_past}] * len(parts))
        outputs = ["logits", *(f"new_{part}" for part in parts)]
        graph = StepGraph(model).eval()
        _write(
            graph,
            (torch.full((2,), BOS), source_visible, *tensors),
            shapes,
            names,
            outputs,
            into / "decoder_step.onnx",
        )


def write(export: Export) -> None:
    """Writes the folder of this format."""

    def make(work: Path) -> None:
        write_graphs(export.translator.model, work)

    folder.write(export.output, "onnx", export.translator, make)
