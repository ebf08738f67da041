"""Cuts a text into the parts that are translated, and joins the translations of the parts."""

import logging
import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from transformer.data.placeholders import Kept, count_placeholders, restore
from transformer.data.tokenizer import Tokenizer
from transformer.inference.long_text import encode_sentences, split_sentences
from transformer.inference.settings import SplitLines

log = logging.getLogger(__name__)


class Word(NamedTuple):
    """A word of a translation; words are separated by spaces. `confidence` is a probability by the model (see
    `inference.confidence`), `source` the number of its source word, counted from 0, if that is known."""

    text: str
    confidence: float
    source: int | None


@dataclass(frozen=True)
class Translation:
    """A text in the target language, with its pieces. `log_probability` is in nats, `score` is log-probability /
    length^α (`search.normalized`). For a text translated in parts, both are sums over the parts."""

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    is_cut: bool = False  # it has as many tokens as the search allowed, so its end may be missing
    source_ids: list[int] = field(default_factory=list)  # of the source; empty for a text translated in parts
    parts: tuple["Translation", ...] = ()  # for a text translated in parts
    kept: Sequence[Kept] = ()  # the strings that its placeholders stand for
    words: list[Word] | None = None  # None until `confidence.with_words` finds them

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its pieces and of the end symbol (of each part): 1 / perplexity.
        It is 1 for a text that the model did not write: an empty one or one that is not translated."""
        tokens = sum(len(part.pieces) + 1 for part in self.parts or (self,))
        return math.exp(self.log_probability / tokens)

    @property
    def words_as_dicts(self) -> list[dict[str, Any]] | None:
        """The words for JSON."""
        return None if self.words is None else [word._asdict() for word in self.words]


EMPTY = Translation("", 0.0, 0.0, [])


class Part(NamedTuple):
    """A text, or a part of it. The random draws of sampling depend on its number. A part with a `text` is not
    translated: this text is the result. The first part's translation begins with the `prefix` of a search. `kept` are
    the strings that its placeholders stand for."""

    ids: list[int]
    number: int = 0
    text: str = ""
    is_first: bool = True
    kept: Sequence[Kept] = ()

    def finished(self, translation: Translation) -> Translation:
        """The translation with the kept strings in place of the placeholders."""
        if not self.kept:
            return translation
        return replace(translation, text=restore(translation.text, self.kept), kept=self.kept)

    def lost(self, translation: Translation) -> list[str]:
        """The kept strings that are missing in the translation."""
        pieces, lost = list(translation.pieces), list[str]()
        for one in self.kept if not self.text else ():
            if one.placeholder in pieces:
                pieces.remove(one.placeholder)
            else:
                lost.append(one.text)
        return lost


def with_kept(parts: list[Part], kept: Sequence[Kept], placeholders: Container[int]) -> list[Part]:
    """The parts of a text, each with its share of the kept strings."""
    shared, end = list[Part](), 0
    for part in parts:
        begin, end = end, end + count_placeholders(part.text) + sum(id in placeholders for id in part.ids)
        shared.append(part._replace(kept=kept[begin:end]))
    return shared


def is_letterless(text: str) -> bool:
    return not any(map(str.isalpha, text))


def parts_of(
    text: str,
    ids: list[int],
    tokenizer: Tokenizer,
    limit: int,
    split_lines: SplitLines,
    keeps_letterless: bool,
    place: str,
) -> list[Part]:
    """The parts of a text with these `ids`: none if it is empty, several if it is split.

    A part has at most `limit` ids. Raises ValueError, which begins with `place`, for a long text that must not be
    split.
    """

    def part(sentence: str, encoded: list[list[int]]) -> list[Part]:
        if keeps_letterless and encoded and is_letterless(sentence):
            return [Part([], text=sentence.strip())]
        return [Part(piece) for piece in encoded]

    is_long = len(ids) > limit
    problem = f"{place} has {len(ids):,} tokens, more than the {limit:,} this model allows"
    if is_long and split_lines == "never":
        raise ValueError(problem)
    if not is_long and split_lines != "sentences":
        return part(text, [ids] if len(ids) > len(tokenizer.prefix) else [])
    sentences = [sentence for sentence in split_sentences(text) if sentence.strip()]
    parts = [one for sentence in sentences for one in part(sentence, encode_sentences([sentence], tokenizer, limit))]
    if is_long and split_lines == "long":
        log.warning("%s: translated in %d parts", problem, len(parts))
    elif len(parts) > len(sentences):
        log.warning("%s has a sentence of more than %d tokens: translated in parts", place, limit)
    return parts


def join(parts: list[list[Translation]], space: str) -> list[Translation]:
    """The hypotheses of a text: those of its only part, or one that joins the best of each part with `space`."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return [EMPTY]
    best = [hypotheses[0] for hypotheses in parts]
    score, total = sum((part.score for part in best), 0.0), sum((part.log_probability for part in best), 0.0)
    pieces = [piece for part in best for piece in part.pieces]
    text, is_cut = space.join(part.text for part in best), any(part.is_cut for part in best)
    return [Translation(text, score, total, pieces, is_cut, parts=tuple(best))]
