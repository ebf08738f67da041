"""Attention weights: recorded in a pass over a translation, and drawn as heat maps with the tokens as labels."""

import logging
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transformer.data.tokenizer import BOS, EOS
from transformer.device import full_precision
from transformer.inference.long_text import split_sentences
from transformer.inference.parts import Translation
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import Translator
from transformer.model.attention import AttentionRecord
from transformer.model.eval_mode import eval_mode
from transformer.model.transformer import Decoder, Transformer
from transformer.tools.pictures.picture import save
from transformer.tools.pictures.view import Attention, View

log = logging.getLogger(__name__)
# There are layers × heads × tokens² weights: with more tokens, pages and pictures would get too large.
MAX_TOKENS = 200
MAX_LABEL = 24
CELL = 0.3  # inches
# The pieces of a `Reading` for queries and keys. The decoder's query is labeled with the piece that it predicts.
SIDES: dict[Attention, tuple[str, str]] = {
    "cross": ("written", "source"),
    "encoder": ("source", "source"),
    "decoder": ("written", "target"),
}
LABELS = {"source": "the source", "written": "the step that writes …", "target": "what is written already"}
NAMES: dict[Attention, str] = {
    "cross": "encoder-decoder (cross) attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}


class Reading(NamedTuple):
    """The attention weights and probabilities of one pass over a source and its translation.

    `source` are the source's pieces with the end symbol, `target` the decoder's inputs: the begin symbol, then the
    translation's pieces. Row t of the probabilities, and of queries, is about written[t], the piece after `target[t]`.
    `states` are the outputs of each decoder layer.
    """

    record: AttentionRecord
    source: list[str]
    target: list[str]
    probabilities: Float[Tensor, "steps vocabulary"]
    states: Float[Tensor, "layers steps dim"]

    @property
    def written(self) -> list[str]:
        return [*self.target[1:], self.source[-1]]  # with the end symbol

    def weights(self, view: View) -> tuple[Float[Tensor, "queries keys"], str]:
        """One matrix and its title. Raises ValueError, with the range, for a layer or head that does not exist."""
        name, layers = NAMES[view.attention], getattr(self.record, view.attention)
        if not layers:
            raise ValueError(f"this model has no {name}")
        layer = view.layer or len(layers)
        if layer > len(layers):
            raise ValueError(f"there is no layer {layer}: the {name} of this model has layers 1 to {len(layers)}")
        heads = layers[layer - 1][0]
        if view.head and view.head > len(heads):
            raise ValueError(f"there is no head {view.head}: the {name} of this model has heads 1 to {len(heads)}")
        shown = f"head {view.head} of {len(heads)}" if view.head else f"mean of {len(heads)} heads"
        title = f"{name}\nlayer {layer} of {len(layers)}, {shown}"
        return heads[view.head - 1] if view.head else heads.mean(dim=0), title


def _checked(ids: list[int], name: str, model: Transformer, least: int = 1, tags: int = 0) -> list[int]:
    """`ids`, if their number is allowed; the first `tags` of them are no tokens of the text."""
    most = min(model.config.max_length - 1, MAX_TOKENS) - tags
    if not least <= len(ids) - tags <= most:
        raise ValueError(f"the {name} has {len(ids) - tags:,} tokens; between {least} and {most} can be shown")
    return ids


def _only_model(translator: Translator) -> Transformer:
    if len(translator.models) > 1:
        raise ValueError("an ensemble has the attention of each of its models: give only one of them")
    if translator.model.output.weight.is_meta:
        raise ValueError("the engine of an export shows no attention weights: load the run that it was made from")
    return translator.model


def _source_ids(translator: Translator, text: str) -> list[int]:
    if not isinstance(text, str):
        raise TypeError(f"text must be one text, not {type(text).__name__}")
    tokenizer = translator.source_tokenizer
    return _checked(tokenizer.encode(text), "text", _only_model(translator), tags=len(tokenizer.prefix))


@contextmanager
def layer_states(decoder: Decoder) -> Iterator[list[Float[Tensor, "batch length dim"]]]:
    """A context that collects the output of each layer in a pass of the decoder."""
    states: list[Tensor] = []
    hooks = [layer.register_forward_hook(lambda _, __, output: states.append(output[0])) for layer in decoder.layers]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def read(translator: Translator, text: str, target: list[int]) -> Reading:
    """One teacher-forced pass over a source text and the ids of its translation, without dropout.

    Raises ValueError for a text without tokens, for too many tokens on a side, for an ensemble and for an export.
    """
    model = _only_model(translator)
    source = _source_ids(translator, text)
    _checked(target, "translation", model, least=0)
    device, record = model.output.weight.device, AttentionRecord([], [], [])
    with eval_mode(model), full_precision(device), layer_states(model.decoder) as states:
        memory = model.encode(torch.tensor([[*source, EOS]], device=device), record=record)
        logits = model.decode(torch.tensor([[BOS, *target]], device=device), memory, record=record)
    sides = ((translator.source_tokenizer, [*source, EOS]), (translator.target_tokenizer, [BOS, *target]))
    source_pieces, target_pieces = ([tokenizer.piece(id) for id in ids] for tokenizer, ids in sides)
    return Reading(record, source_pieces, target_pieces, logits[0].float().softmax(dim=-1), torch.cat(states))


def read_translation(
    translator: Translator, text: str, search: SearchSettings
) -> tuple[Reading, list[int], list[Translation]]:
    """Translates a text and reads the best translation; returns the reading, its ids and all hypotheses.

    The log warns if the text has several sentences, because one pass over all of them is shown. Raises the errors of
    `read`: for a translation that is too long after the search, the others before it.
    """
    _source_ids(translator, text)
    if (count := len(split_sentences(text))) > 1:
        log.warning("the text has %d sentences, translated as one: give one sentence at a time", count)
    [hypotheses] = translator.n_best([text], search, split_lines="never")
    # The ids of the search: encoding the translation's text again may give others.
    ids = translator.target_tokenizer.ids(hypotheses[0].pieces)
    return read(translator, text, ids), ids, hypotheses


def _label(piece: str) -> str:
    # Without the mark of a space in a word's first piece, unless the mark is the whole piece.
    text = piece.removeprefix("▁") or piece
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


def _is_upright(label: str) -> bool:
    """Whether a label is Chinese, Japanese or Korean: these are written downwards and not rotated."""
    return all(unicodedata.east_asian_width(character) in "WF" for character in label)


def attention_figure(
    weights: Float[Tensor, "queries keys"],
    queries: list[str],
    keys: list[str],
    title: str,
    names: tuple[str, str] = ("looking (queries)", "looked at (keys)"),
) -> Figure:
    """A heat map: entry (row, column) is the share of the row's attention that goes to the column.

    `names` are the labels of rows and columns. Cells have a fixed size, and labels are outside the figure, which grows
    when it is saved.
    """
    width, height = CELL * max(len(keys), 6), CELL * max(len(queries), 6)
    figure = Figure(figsize=(width, height))
    axes, bar = figure.add_axes((0, 0, 1, 1)), figure.add_axes((1 + 0.2 / width, 0, 0.15 / width, 1))
    image = axes.imshow(weights.float().cpu().numpy(), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    # A piece may have dollar signs, which must not start a formula.
    columns = [_label(piece) for piece in keys]
    written = ["\n".join(label) if _is_upright(label) else label for label in columns]
    axes.set_xticks(range(len(keys)), written, rotation=90, parse_math=False)
    for tick, label in zip(axes.get_xticklabels(), columns, strict=True):
        tick.set_rotation(0 if _is_upright(label) else 90)
    axes.set_yticks(range(len(queries)), [_label(piece) for piece in queries], parse_math=False)
    axes.set_ylabel(names[0])
    axes.set_xlabel(names[1])
    axes.set_title(title, fontsize="medium")
    figure.colorbar(image, cax=bar, label="share of the row's attention")
    return figure


def reading_figure(reading: Reading, view: View) -> Figure:
    weights, title = reading.weights(view)
    looking, looked_at = SIDES[view.attention]
    names = (f"looking: {LABELS[looking]} (queries)", f"looked at: {LABELS[looked_at]} (keys)")
    return attention_figure(weights, getattr(reading, looking), getattr(reading, looked_at), title, names)


def draw_reading(reading: Reading, view: View, output: Path) -> None:
    """Draws one matrix of a reading, with layer and head in its title."""
    save(reading_figure(reading, view), output)


def draw_translation(translator: Translator, text: str, search: SearchSettings, view: View, output: Path) -> None:
    """Translates a text and draws its attention weights. Raises the errors of `read` and `Reading.weights`."""
    draw_reading(read_translation(translator, text, search)[0], view, output)
