"""Sentences that a page offers: five to begin with, and for each switch of its "What if?" one where the switch matters
to this very model, which is found by measuring.

A part of a model matters to a sentence if the translation becomes less probable without it.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer.data.batching import inputs_and_labels, pad
from transformer.data.tokenizer import EOS, PAD, UNK
from transformer.inference.long_text import split_sentences
from transformer.inference.parts import is_letterless
from transformer.inference.scoring import token_log_probabilities
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import Translator
from transformer.model.attention import MultiHeadAttention
from transformer.model.eval_mode import eval_mode
from transformer.model.layers import DecoderLayer
from transformer.model.masks import padding_mask
from transformer.model.positions import NoPositions
from transformer.model.transformer import Memory, Transformer
from transformer.printing import with_progress

BUTTONS = 5
# Of more sentences, as many are measured, evenly spread: of a small model 200 take some ten seconds of one core.
MAX_MEASURED, MIN_MEASURED, WEIGHTS_MEASURED = 200, 20, 400_000_000
MAX_TOKENS = 40  # longer sentences are no examples
# There are many heads: fewer sentences tell which matters.
MEASURED_PER_HEAD = 20
SURE = 0.5  # the share of the sentences, those that the model is surest of: what it cannot do anyway shows nothing
# As what_if.js switches them.
PADDING, SEED = 4, 1
MASK32 = 0xFFFFFFFF


class Head(NamedTuple):
    """A head of an attention (encoder, decoder or cross); layer and head are counted from 0, as change.js does."""

    attention: str
    layer: int
    head: int


def _attentions(model: Transformer) -> dict[tuple[str, int], MultiHeadAttention]:
    kinds = (("encoder", model.encoder, "self_attention"), ("decoder", model.decoder, "self_attention"))
    found = {
        (name, index): getattr(layer, part)
        for name, side, part in (*kinds, ("cross", model.decoder, "cross_attention"))
        for index, layer in enumerate(side.layers)
    }
    return {place: attention for place, attention in found.items() if attention is not None}


def heads_of(model: Transformer) -> list[Head]:
    return [Head(*place, head) for place, attention in _attentions(model).items() for head in range(attention.heads)]


def _attend_to_all(attend: Callable[..., Tensor], queries: Tensor, key_values: Any, visible: Any, *rest: Any) -> Tensor:
    return attend(queries, key_values, None, *rest)


def without(model: Transformer, part: str | Head) -> Transformer:
    """A copy of the model in which a part is left out, as change.js leaves it out: positions, scale, causal, cross, or
    a head, which adds nothing then."""
    changed = copy.deepcopy(model)
    attentions = _attentions(changed)
    if isinstance(part, Head):
        attention = attentions[part.attention, part.layer]
        first = part.head * attention.value_dim
        with torch.no_grad():
            attention.output.weight[:, first : first + attention.value_dim] = 0
    elif part == "positions":
        for side in (changed.encoder, changed.decoder):
            side.embedding.positions, side.position_bias = NoPositions(0, 0), None  # type: ignore[assignment]
        for attention in attentions.values():
            attention.rotation = None
    elif part == "scale":
        for attention in attentions.values():
            attention.score.scale = 1.0
    else:
        for layer in changed.decoder.layers:
            assert isinstance(layer, DecoderLayer)
            if part == "cross":
                layer.cross_attention = None
            else:
                layer.self_attention.attend = partial(_attend_to_all, layer.self_attention.attend)  # type: ignore[method-assign]
    return changed


def shuffled(text: str, seed: int = SEED) -> str:
    """The words of a text in another order: `shuffled` of translator.js, by its random numbers (mulberry32)."""
    words, state = text.split(), seed
    for last in range(len(words) - 1, 0, -1):
        state = (state + 0x6D2B79F5) & MASK32
        bits = (state ^ (state >> 15)) * (state | 1) & MASK32
        bits ^= (bits + ((bits ^ (bits >> 7)) * (bits | 61) & MASK32)) & MASK32
        other = math.floor(((bits ^ (bits >> 14)) / 2**32) * (last + 1))
        words[last], words[other] = words[other], words[last]
    return " ".join(words)


def _with_visible_padding(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """log p of each id and of EOS where padding after the source is looked at."""
    inputs, labels = inputs_and_labels([target])
    logits = model(torch.tensor([[*source, EOS, *[PAD] * PADDING]]), inputs)
    return logits.log_softmax(dim=-1).gather(2, labels[..., None])[0, :, 0].tolist()


def _step_by_step(model: Transformer, source: Tensor, targets: list[list[int]]) -> list[list[float]]:
    """log p of each id and of EOS as a search sees it: without the causal mask each new token changes the states of
    all before it."""
    memory, (inputs, labels) = model.encode(source, padding_mask(source, PAD)), inputs_and_labels(targets)
    found: list[list[float]] = [[] for _ in targets]
    for step in range(inputs.size(1)):
        rows = [row for row, ids in enumerate(targets) if step <= len(ids)]  # padding would be looked at
        visible = None if memory.visible is None else memory.visible[rows]
        logits = model.decode(inputs[rows, : step + 1], Memory(memory.states[rows], visible))[:, -1]
        chosen = logits.log_softmax(dim=-1).gather(1, labels[rows, step, None]).squeeze(1)
        for row, value in zip(rows, chosen.tolist(), strict=True):
            found[row].append(value)
    return found


@torch.inference_mode()
def mean_probabilities(
    translator: Translator, texts: Sequence[str], targets: list[list[int]], part: str | Head | None = None
) -> list[float]:
    """Of each translation (ids without EOS) the geometric mean of its pieces' probabilities, the end symbol counted,
    without a `part`: one that `without` knows, or padding (the mask of it) or shuffle (the order of the words)."""
    texts = [shuffled(text) for text in texts] if part == "shuffle" else texts
    sources = translator.source_tokenizer.encode_all([*texts])
    changes_model = part is not None and part not in ("padding", "shuffle")
    model = without(translator.model, part) if changes_model else translator.model  # type: ignore[arg-type]
    with eval_mode(model):
        if part == "causal":
            source = pad([[*ids, EOS] for ids in sources])
            found = _step_by_step(model, source, targets)
        elif part == "padding":
            found = [_with_visible_padding(model, *pair) for pair in zip(sources, targets, strict=True)]
        else:
            found = token_log_probabilities([model], sources, targets, translator.default_batch_tokens)
    return [math.exp(math.fsum(row) / (len(ids) + 1)) for row, ids in zip(found, targets, strict=True)]


def _spread(texts: list[str], count: int) -> list[str]:
    return [texts[index * len(texts) // count] for index in range(count)] if len(texts) > count else texts


def _suitable(translator: Translator, texts: Sequence[str]) -> list[str]:
    """Single sentences of a size to look at, each once, that have letters and nothing that the vocabulary lacks."""
    most = min(MAX_TOKENS, translator.max_length - 1 - PADDING)
    chosen = [text for text in dict.fromkeys(texts) if not is_letterless(text) and len(split_sentences(text)) == 1]
    encoded = zip(chosen, translator.source_tokenizer.encode_all(chosen), strict=True)
    return [text for text, ids in encoded if ids and len(ids) <= most and UNK not in ids]


def find_examples(translator: Translator, texts: Sequence[str]) -> dict[str, Any]:
    """Of sentences in the source language those that a page offers, as what_if.js and live.js take them: `examples`,
    the short ones first, and `what_if`, for each switch the text where it matters most, and which head is meant."""
    weights = sum(weight.numel() for weight in translator.model.parameters())
    most = max(MIN_MEASURED, min(MAX_MEASURED, WEIGHTS_MEASURED // weights))
    texts = _spread(_suitable(translator, texts), most)
    tokenizer, greedy = translator.source_tokenizer, SearchSettings(method="greedy")
    found = translator.n_best_ids(tokenizer.encode_all(texts), greedy)
    pairs = [(text, translator.target_tokenizer.ids(best.pieces)) for text, [best] in zip(texts, found, strict=True)]
    pairs = [(text, ids) for text, ids in pairs if ids]  # an empty translation shows nothing
    if not pairs:
        return {}
    texts, targets = [text for text, _ in pairs], [ids for _, ids in pairs]
    usual = mean_probabilities(translator, texts, targets)

    # From the shortest fifth to the longest one, the sentence that the model is surest of.
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    count = min(BUTTONS, len(order))
    groups = [order[place * len(order) // count : (place + 1) * len(order) // count] for place in range(count)]
    examples = [texts[max(group, key=lambda index: usual[index])] for group in groups]

    switches = ["positions", "scale", "causal", "cross", "padding", "shuffle"]
    if translator.model.config.decoder.cross_attention is None:
        switches.remove("cross")
    sure = sorted(range(len(texts)), key=lambda index: -usual[index])[: math.ceil(len(texts) * SURE)]
    losses: list[tuple[float, int, str | Head]] = []
    parts: list[str | Head] = [*switches, *heads_of(translator.model)]
    for part in with_progress(parts, "finding sentences for What if?"):
        chosen = sure[:MEASURED_PER_HEAD] if isinstance(part, Head) else sure
        of_chosen = [texts[index] for index in chosen], [targets[index] for index in chosen]
        changed = mean_probabilities(translator, *of_chosen, part)
        losses += [(usual[index] - after, index, part) for index, after in zip(chosen, changed, strict=True)]
    what_if: dict[str, dict[str, Any]] = {}
    for loss, index, part in sorted(losses, key=lambda one: -one[0]):
        name = "heads" if isinstance(part, Head) else part
        if loss > 0 and name not in what_if:
            what_if[name] = {"text": texts[index]} | ({"head": part._asdict()} if isinstance(part, Head) else {})
    return {"examples": examples, "what_if": what_if}
