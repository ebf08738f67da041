"""A translator as one HTML page that translates in a browser, without a network.

`tools/page/html/runtime` is the program in it. The weights are base64 of a gzip file, whose own checksum tells the
browser of any damage (`weights.js` there says what is in it). They are rounded: to int8, each row of a matrix with a
scale of its own, or to float16; biases and norms, which are few, stay float32 beside int8.
"""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.data.languages import space_between_sentences
from transformer.data.text_files import read_lines
from transformer.files import atomic_write
from transformer.inference.translator import Translator
from transformer.model.transformer import Transformer
from transformer.tools.export.supported import check_learned, check_supported
from transformer.tools.export.write import Export
from transformer.tools.hub.vocabulary import Piece, parse
from transformer.tools.page.examples import find_examples
from transformer.tools.page.history import History, read_history
from transformer.tools.page.html import assemble, bundle, to_json

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")
SCORES = ("dot", "scaled_dot", "bilinear", "concat", "additive")
ACTIVATIONS = ("relu", "gelu", "silu", "swiglu")
# What tokenizer.js shows for an unknown word, as SentencePiece does unless it is told otherwise.
UNKNOWN = " ⁇ "
Encoded = tuple[str, list[int], bytes]  # type, shape and bytes


def check(translator: Translator) -> None:
    """Raises ValueError, naming the setting, for a model or a tokenizer with a part that the page's program lacks."""
    check_supported(translator.model.config, "a page", POSITIONS, SCORES, ACTIVATIONS)
    for tokenizer in translator.tokenizers:
        # As this project trains them; a tokenizer of others may handle spaces in other ways.
        model = parse(tokenizer.model)
        spaces = model.normalizer_spec
        usual = spaces.add_dummy_prefix and spaces.remove_extra_whitespaces and spaces.escape_whitespaces
        within = tokenizer.kind == "bpe" and any("▁" in piece.piece[1:] for piece in model.pieces)
        if not usual or within or model.trainer_spec.treat_whitespace_as_suffix:
            raise ValueError("this tokenizer cannot be exported to a page: it handles spaces in a way of its own")
        # Pieces that merges go through, and that are then taken apart again.
        unused = tokenizer.kind == "bpe" and any(piece.type == Piece.UNUSED for piece in model.pieces)
        if unused or model.denormalizer_spec.precompiled_charsmap or model.trainer_spec.unk_surface != UNKNOWN:
            raise ValueError(
                "this tokenizer cannot be exported to a page: it has unused merges, a map of characters for what is "
                f"translated, or other than{UNKNOWN}for unknown words"
            )


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers from -127 to 127, and the scale of each row: weight ≈ scale · integers."""
    scales = weight.abs().amax(dim=-1) / 127
    integers = (weight / scales.where(scales > 0, 1.0)[..., None]).round()
    return integers.to(torch.int8), scales


def encoded(weight: Tensor, precision: str) -> Encoded:
    """A weight's type, shape and bytes."""
    weight = weight.detach().float().cpu()
    if precision == "float16":
        return "float16", list(weight.shape), _bytes(weight.half())
    if weight.dim() == 1:
        return "float32", list(weight.shape), _bytes(weight)
    integers, scales = quantized(weight)
    return "int8", list(weight.shape), _bytes(scales) + _bytes(integers)


def encoded_weights(model: Transformer, precision: str) -> dict[str, Encoded]:
    return {name: encoded(weight, precision) for name, weight in model.named_parameters()}


def packed(description: dict[str, Any], content: dict[str, Encoded]) -> str:
    """The description and the tensors in one block, as weights.js reads it."""
    tensors, offset = [], 0
    for name, (kind, shape, data) in content.items():
        tensors.append({"name": name, "type": kind, "shape": shape, "offset": offset, "length": len(data)})
        offset += len(data)
    header = json.dumps(description | {"tensors": tensors}).encode()
    parts = [len(header).to_bytes(4, "little"), header, *(data for _, _, data in content.values())]
    # No time of day in it: the same translator gives the same page.
    return base64.b64encode(gzip.compress(b"".join(parts), mtime=0)).decode("ascii")


def pack(translator: Translator, precision: str) -> str:
    """All that translates."""
    source, target = translator.tokenizers
    content = encoded_weights(translator.model, precision)
    sides = {"source": source} if source.model == target.model else {"source": source, "target": target}
    for side, tokenizer in sides.items():
        content[f"tokenizer.{side}"] = ("uint8", [len(tokenizer.model)], tokenizer.model)
    description = {
        "languages": list(translator.languages),
        "space": space_between_sentences(translator.target_language),
        "tokenizer": {"tag": source.prefix[0] if source.prefix else None},
        "model": asdict(translator.model.config),
        "parameters": sum(weight.numel() for weight in translator.model.parameters()),
        "precision": precision,
        **asdict(translator.defaults),
        "alignment": asdict(translator.alignment) if translator.alignment else None,
    }
    if len(translator.directions) > 1:
        prefixes = ((one, translator.in_direction(*one).source_tokenizer.prefix) for one in translator.directions)
        description["directions"] = [
            {"languages": one, "tag": tag[0] if tag else None, "space": space_between_sentences(one[1])}
            for one, tag in prefixes
        ]
    return packed(description, content)


def rounded(translator: Translator, precision: str) -> Translator:
    """The translator with the weights that the page has."""
    # A new model: one that is loaded has its weights a second time, packed to translate with them.
    model, given = Transformer(translator.model.config).eval(), dict(translator.model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(given[name])
            if precision == "float16":
                weight.copy_(weight.half())
            elif weight.dim() > 1:
                integers, scales = quantized(weight)
                weight.copy_(integers * scales[..., None])
    result = Translator(model, translator.tokenizers, translator.languages, translator.directions)
    result.defaults = translator.defaults
    return result


def page(opening: str, weights: str, history: dict[str, str]) -> str:
    return assemble({"opening": opening, "runtime": bundle("runtime/worker.js"), "weights": weights} | history)


def build(
    translator: Translator,
    precision: str,
    text: str = "",
    name: str = "",
    title: str = "",
    sentences: Sequence[str] = (),
    history: History = History(),
) -> str:
    """The page as HTML; `precision` is int8 or float16. Raises what `check` does.

    It opens with the translation of `text`, calls the model `name` and itself `title`; of `sentences` in the source
    language it offers some (see `find_examples`); with a `history` it shows how the model learned.
    """
    check(translator)
    opening: dict[str, Any] = {"text": text, "name": name}
    if title:
        opening["title"] = title
    if sentences:
        # Measured with the page's own weights, so that its numbers are those.
        opening |= find_examples(rounded(translator, precision), sentences)
    blocks = {}
    if history.snapshots:
        about = {"steps": list(history.snapshots), "finished": history.finished, "curves": history.curves}
        snapshots = {step: packed({}, encoded_weights(model, precision)) for step, model in history.snapshots.items()}
        blocks = {"history": to_json(about)} | {f"snapshot-{step}": weights for step, weights in snapshots.items()}
    return page(to_json(opening), pack(translator, precision), blocks)


def write(export: Export) -> None:
    """The file of EXPORTS. Raises ValueError for a direction that the model has not learned."""
    check_learned(export.translator, "a page")
    history = read_history(export.run, export.translator) if export.run else History()
    sentences = [*read_lines(Path(export.examples))] if export.examples else []
    page = build(export.translator, export.precision, export.text, export.name, export.title, sentences, history)
    atomic_write(export.output, page.encode())


def with_current_program(html: str) -> str:
    """An exported page with the program of today: what it opens with, and its weights, stay as they are."""
    blocks = dict(re.findall(r'<script [^>]*id="(opening|weights|history|snapshot-\d+)">(.*?)</script>', html))
    return page(blocks.pop("opening"), blocks.pop("weights"), blocks)
