"""How sure a model is of each word of its translations, by its own probabilities.

The confidence of a word is the geometric mean of its pieces' probabilities, as for a whole translation
(`Translation.confidence`). A word with a high confidence may be wrong; one with a low confidence may be right, because
there may be other ways to say the same.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from transformer.data.aligner import Link
from transformer.data.placeholders import restore
from transformer.data.tokenizer import Tokenizer
from transformer.inference.alignment_head import AlignmentHead, default_head
from transformer.inference.parts import Translation, Word
from transformer.inference.translator import Translator
from transformer.inference.word_alignment import TokenPair, align_pairs


def can_align(translator: Translator) -> bool:
    """Whether the model has cross-attention and gives its weights: the engine of an export does not."""
    return translator.model.config.decoder.cross_attention is not None and not translator.model.output.weight.is_meta


def _source_words(translator: Translator, text: str, parts: Sequence[Translation]) -> list[list[int]]:
    """For each token of each part, the number of its word in the whole text; -1 for a tag. All are -1 if the tokens of
    the parts are not those of the text, or if its words are not separated by spaces."""
    tokenizer = translator.source_tokenizer
    read = translator.keeper.protect(text)[0] if translator.keeper else text
    pieces, tag = tokenizer.pieces(read), len(tokenizer.prefix)
    words = tokenizer.word_indices(pieces)
    # A part that is not translated has no ids.
    ids = [part.source_ids[tag:] or tokenizer.ids(tokenizer.pieces(part.text)) for part in parts]
    if [*chain(*ids)] != tokenizer.ids(pieces) or max(words, default=-1) + 1 != len(text.split()):
        words = [-1] * sum(map(len, ids))
    each = iter(words)
    return [[-1] * tag + [next(each) for _ in of_part] for of_part in ids]


def _words(
    tokenizer: Tokenizer, part: Translation, pair: TokenPair, log_probabilities: list[float], links: list[Link]
) -> list[Word] | None:
    """The words of a part that the model wrote; None if its text has more or fewer than its pieces have."""
    of_word: dict[int, list[float]] = {}
    for word, log_probability in zip(pair.target_words, log_probabilities, strict=False):  # the last is the end's
        if word >= 0:
            of_word.setdefault(word, []).append(log_probability)
    text = part.text.replace(" ", "\0")
    if part.kept:  # a kept string may have spaces of its own, or stand beside another word
        text = restore(tokenizer.decode(pair.target).replace(" ", "\0"), part.kept)
    texts = [text for text in text.split("\0") if text]
    if len(texts) != len(of_word):
        return None
    sources = {target: source for source, target in links}
    return [
        Word(text, math.exp(math.fsum(values) / len(values)), sources.get(word))
        for text, (word, values) in zip(texts, of_word.items(), strict=True)
    ]


def _kept_words(part: Translation, pair: TokenPair) -> list[Word]:
    """The words of a part that was copied from the source; none if the model wrote nothing for a part."""
    first = next(iter(pair.source_words), -1)
    return [Word(text, 1.0, first + number if first >= 0 else None) for number, text in enumerate(part.text.split())]


def with_words(
    translator: Translator,
    texts: Sequence[str],
    translations: Sequence[Translation],
    head: AlignmentHead | None = None,
    batch_tokens: int | None = None,
) -> list[Translation]:
    """The translations, each of the text at its place, with their words; None where these cannot be told apart.

    Takes one teacher-forced pass over the translations, and another one to align them by `head` (by default the one
    that training found), if the model can. An `Ensemble` gives the mean of its members' probabilities, and its first
    model aligns. Words that stay as they are have confidence 1.
    """
    target = translator.target_tokenizer
    if head is None and can_align(translator):
        head = translator.alignment or default_head(translator.model.config)
    each = [translation.parts or (translation,) for translation in translations]
    pairs = [
        [
            TokenPair(part.source_ids, words, target.ids(part.pieces), target.word_indices(part.pieces))
            for part, words in zip(parts, _source_words(translator, text, parts), strict=True)
        ]
        for text, parts in zip(texts, each, strict=True)
    ]
    written = [pair for pair in chain(*pairs) if pair.target]
    sources, targets = [pair.source for pair in written], [pair.target for pair in written]
    found = iter(translator.token_log_probabilities(sources, targets, batch_tokens))
    links = iter([list[Link]()] * len(written))
    if head:
        known = [pair if max(pair.source_words) >= 0 and max(pair.target_words) >= 0 else None for pair in written]
        links = iter([of_head for [of_head] in align_pairs(translator, known, [head], batch_tokens)])
    results = []
    for translation, parts, of_text in zip(translations, each, pairs, strict=True):
        words: list[Word] | None = []
        for part, pair in zip(parts, of_text, strict=True):
            more = _words(target, part, pair, next(found), next(links)) if pair.target else _kept_words(part, pair)
            words = None if words is None or more is None else words + more
        results.append(replace(translation, words=words))
    return results
