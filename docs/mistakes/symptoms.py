"""Symptoms of each mistake besides the curves: one or two numbers that differ in a healthy model, and its attention.

Everything is measured twice, on a model without the mistake and on one with it.
"""

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from docs.mistakes.zoo import padding_attended_to
from transformer.data.text_files import Pair
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import Translator
from transformer.model.attention import AttentionRecord
from transformer.model.eval_mode import eval_mode
from transformer.model.masks import padding_mask
from transformer.tools.pictures.attention_maps import Attention

GREEDY = SearchSettings(method="greedy")


def mean(numbers: Iterable[float]) -> float:
    values = list(numbers)
    return sum(values) / len(values)


def percent(shares: Iterable[float]) -> str:
    """The mean of shares, or the share of True."""
    return f"{mean(shares):.0%}"


class Reading(NamedTuple):
    """One pair, read with teacher forcing: its inputs, its labels, and the most likely ids by the model."""

    source: list[int]
    inputs: list[int]
    labels: list[int]
    predicted: list[int]
    record: AttentionRecord

    @property
    def right(self) -> float:
        """The share of labels that are the most likely ids."""
        return mean(map(int.__eq__, self.predicted, self.labels))


@torch.inference_mode()
def read(translator: Translator, pair: Pair, padding: int = 0) -> Reading:
    """Reads a pair with this number of padding symbols after the source."""
    model, record = translator.model, AttentionRecord([], [], [])
    source = [*translator.source_tokenizer.encode(pair[0]), EOS, *[PAD] * padding]
    target = translator.target_tokenizer.encode(pair[1])
    with eval_mode(model):
        ids = torch.tensor([source])
        memory = model.encode(ids, padding_mask(ids, PAD), record)
        predicted = model.decode(torch.tensor([[BOS, *target]]), memory, record)[0].argmax(dim=-1)
    return Reading(source, [BOS, *target], [*target, EOS], predicted.tolist(), record)


def seeing_the_future(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    def to_later(weights: Tensor) -> float:
        return weights.triu(diagonal=1).sum().item() / weights.sum().item()

    readings = [read(translator, pair) for pair in pairs]
    return {
        "decoder self-attention that goes to later tokens": percent(to_later(r.record.decoder[-1]) for r in readings),
        "next tokens predicted right, given the reference": percent(r.right for r in readings),
    }


def seeing_padding(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    def right() -> str:
        return " / ".join(percent(read(translator, pair, padding).right for pair in pairs) for padding in (0, 10, 30))

    label = "next tokens predicted correctly, with 0 / 10 / 30 padding symbols after the source"
    with padding_attended_to():
        unmasked = right()
    return {label: right(), f"{label}, mask forgotten in use only": unmasked}


def sharpness(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    """By kind of attention: encoder, decoder, cross."""
    records = [read(translator, pair).record for pair in pairs]
    largest = [
        mean(w.amax(dim=-1).mean().item() for layers in kind for w in layers) for kind in zip(*records, strict=True)
    ]
    return {"largest weight of a row, mean (encoder / decoder / cross)": " / ".join(f"{x:.2f}" for x in largest)}


def variety(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    translations = translator.translate([source for source, _ in pairs], GREEDY)
    return {f"different translations of {len(pairs)} sentences": str(len(set(translations)))}


def copying(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    readings = [read(translator, pair) for pair in pairs]
    copied = percent(mean(map(int.__eq__, r.predicted, r.inputs)) for r in readings)
    return {"predictions that repeat the input token": copied}


def sums_of_rows(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    rows = torch.cat([read(translator, pair).record.cross[-1].sum(dim=-1).flatten() for pair in pairs])
    return {"sums of the rows of cross-attention": f"{rows.min():.2f} to {rows.max():.2f}"}


def blindness_to_order(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    sources, draw = [source for source, _ in pairs], random.Random(1)
    shuffled = [" ".join(draw.sample(words, len(words))) for words in map(str.split, sources)]
    both = zip(translator.translate(sources, GREEDY), translator.translate(shuffled, GREEDY), strict=True)
    return {"translations that stay the same when the source's words are shuffled": percent(a == b for a, b in both)}


def chance(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    sources = [source for source, _ in pairs]
    twice = zip(translator.translate(sources, GREEDY), translator.translate(sources, GREEDY), strict=True)
    return {"translations that are different in a second call": percent(a != b for a, b in twice)}


def endlessness(translator: Translator, pairs: list[Pair]) -> dict[str, str]:
    sources = [source for source, _ in pairs]
    lengths = [len(best.pieces) for [best] in translator.n_best(sources, GREEDY)]
    limits = GREEDY.max_lengths([len(ids) for ids in translator.source_tokenizer.encode_all(sources)])
    return {
        "tokens of a translation, mean": f"{mean(lengths):.1f}",
        "translations that end only at the length limit": percent(map(int.__eq__, lengths, limits)),
    }


SYMPTOMS: dict[str, Callable[[Translator, list[Pair]], dict[str, str]]] = {
    "no_causal_mask": seeing_the_future,
    "padding_attended_to": seeing_padding,
    "no_sqrt_dim": sharpness,
    "post_norm_without_warmup": variety,
    "labels_not_shifted": copying,
    "softmax_over_wrong_axis": sums_of_rows,
    "no_positions": blindness_to_order,
    "dropout_left_on": chance,
    "bos_and_eos_mixed_up": endlessness,
}


class View(NamedTuple):
    """The attention of one pair, for a picture; `padding` is appended to its source."""

    attention: Attention
    pair: Pair
    padding: int = 0


SOUP = (
    "Am Donnerstag hat die Verkäuferin mir eine Suppe empfohlen.",
    "On Thursday the shop assistant recommended a soup to me.",
)
VIEWS = {
    "no_causal_mask": View("decoder", SOUP),
    "padding_attended_to": View("cross", SOUP, padding=5),
    "no_sqrt_dim": View("cross", SOUP),
    "post_norm_without_warmup": View("cross", SOUP),
    "labels_not_shifted": View("decoder", SOUP),
    "softmax_over_wrong_axis": View("cross", SOUP),
    "no_positions": View("encoder", SOUP),
}
