"""Finds the source word of each target word, from the weights of cross-attention.

Some heads and layers attend to the source word that is being translated (Garg et al. 2019, "Jointly learning to align
and translate with Transformer models"). For a target token there are two steps: the one that predicts it, and the next
one, which reads it and can be better in deep models (Chen et al. 2020, "Accurate word alignment induction from neural
machine translation"). `evaluation.alignment_error` measures which layer, head and step are best.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.data.aligner import Link
from transformer.data.batching import batches_by_length, inputs_and_labels, pad
from transformer.data.tokenizer import EOS, PAD
from transformer.device import full_precision
from transformer.inference.alignment_head import AlignmentHead, check_head
from transformer.inference.parts import Translation
from transformer.inference.translator import Translator
from transformer.model.attention import AttentionRecord
from transformer.model.eval_mode import eval_mode
from transformer.model.masks import padding_mask

log = logging.getLogger(__name__)


class TokenPair(NamedTuple):
    """A source and its translation as ids, without EOS, and the number of each token's word (-1: no word)."""

    source: list[int]
    source_words: list[int]
    target: list[int]
    target_words: list[int]


def encode_pair(translator: Translator, source: str, target: str | Sequence[str]) -> TokenPair | None:
    """`target` is a text, or the pieces of a translation. None if a side has no words or more tokens than the model has
    positions, or if a tokenizer's normal form of the text has other words."""
    source_tokenizer, target_tokenizer = translator.tokenizers
    tag = source_tokenizer.prefix
    pieces = [
        source_tokenizer.pieces(source),
        target_tokenizer.pieces(target) if isinstance(target, str) else list(target),
    ]
    words = [tokenizer.word_indices(side) for tokenizer, side in zip(translator.tokenizers, pieces, strict=True)]
    counts = [len(source.split()), len(target.split()) if isinstance(target, str) else max(words[1], default=-1) + 1]
    if not all(counts) or [max(side, default=-1) + 1 for side in words] != counts:
        return None
    ids = [source_tokenizer.ids(pieces[0]), target_tokenizer.ids(pieces[1])]
    if max(len(tag) + len(ids[0]), len(ids[1])) >= translator.model.config.max_length:
        return None
    return TokenPair(tag + ids[0], [-1] * len(tag) + words[0], ids[1], words[1])


@torch.inference_mode()
def _cross_attention(
    translator: Translator, pairs: list[TokenPair]
) -> Float[Tensor, "pairs layers heads queries keys"]:
    """The weights of a batch in one teacher-forced pass; query t is the decoder's input t: BOS, then the target."""
    model, device, cross = translator.model, translator.device, list[Tensor]()
    source = pad([[*pair.source, EOS] for pair in pairs]).to(device)
    inputs, _ = inputs_and_labels([pair.target for pair in pairs])
    with full_precision(device):
        model.decode_hidden(
            inputs.to(device), model.encode(source, padding_mask(source, PAD)), AttentionRecord(cross=cross)
        )
    return torch.stack(cross, dim=1).float().cpu()


def _membership(words: list[int]) -> Float[Tensor, "tokens words"]:
    """1 if a token belongs to a word, else 0. (Sum and mean over a target word's tokens have the same argmax.)"""
    return (torch.tensor(words)[:, None] == torch.arange(max(words) + 1)).float()


def _links(cross: Float[Tensor, "layers heads queries keys"], head: AlignmentHead, pair: TokenPair) -> list[Link]:
    """A source word gets the sum of its tokens' weights, a target word the mean; EOS and padding are left out."""
    weights = cross[head.layer - 1].mean(dim=0) if head.head is None else cross[head.layer - 1][head.head - 1]
    first = int(head.shifted)
    weights = weights[first : first + len(pair.target), : len(pair.source)]
    source, target = (_membership(words) for words in (pair.source_words, pair.target_words))
    found = (target.T @ weights @ source).argmax(dim=1).tolist()
    return [(found[word], word) for word in sorted({*pair.target_words} - {-1})]


def align_pairs(
    translator: Translator,
    encoded: Sequence[TokenPair | None],
    heads: Sequence[AlignmentHead],
    batch_tokens: int | None = None,
) -> list[list[list[Link]]]:
    """The links of each pair by each of `heads`; a pair that is None has none."""
    for head in heads:
        check_head(head, translator.model.config)
    links: list[list[list[Link]]] = [[[] for _ in heads] for _ in encoded]
    kept = [(place, pair) for place, pair in enumerate(encoded) if pair is not None]
    lengths = [max(len(pair.source), len(pair.target)) for _, pair in kept]
    with eval_mode(translator.model):
        for batch in batches_by_length(lengths, batch_tokens or translator.default_batch_tokens):
            pairs = [kept[i][1] for i in batch]
            for i, pair, cross in zip(batch, pairs, _cross_attention(translator, pairs), strict=True):
                links[kept[i][0]] = [_links(cross, head, pair) for head in heads]
    return links


def align(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str | Sequence[str]],
    heads: Sequence[AlignmentHead],
    batch_tokens: int | None = None,
) -> list[list[list[Link]]]:
    """The links of each pair by each of `heads`: one for every target word, to the source word it looks at most.

    A target is a text or the pieces of a translation (`Translation.pieces`). Words are separated by spaces. A pair for
    which `encode_pair` gives None has no links.
    """
    encoded = [encode_pair(translator, *pair) for pair in zip(sources, targets, strict=True)]
    return align_pairs(translator, encoded, heads, batch_tokens)


def moses_lines(
    translator: Translator,
    sources: Sequence[str],
    translations: Sequence[Translation],
    head: AlignmentHead,
    batch_tokens: int | None,
    lines: Sequence[int],
) -> Iterator[str]:
    """The alignment of each translation as a line "0-0 2-1": source word - target word. A line that cannot be aligned
    stays empty and is named in the log by its number in `lines`."""
    links = align(translator, sources, [translation.pieces for translation in translations], [head], batch_tokens)
    for line, translation, [found] in zip(lines, translations, links, strict=True):
        if translation.text and not found:
            place = f"{translator.lines_of} line".strip()
            reason = "it was translated in parts or not at all, or it has unusual spaces"
            log.warning("%s %d is not aligned: %s", place, line, reason)
        yield " ".join(f"{source}-{target}" for source, target in sorted(found)) + "\n"
