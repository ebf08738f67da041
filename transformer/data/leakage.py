"""Sentences of validation and test that are in training too, exactly or nearly."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from transformer.data.config import DataSettings
from transformer.data.directions import Direction
from transformer.data.text_files import Pair
from transformer.data.words import Line, read_raw, words

NGRAM = 5  # words
# A training sentence with this share of a held-out sentence's n-grams counts as nearly the same.
MIN_SHARED = 0.8
# A sentence with fewer n-grams may be in others by chance.
MIN_NGRAMS = 3


def _ngrams(tokens: list[str]) -> set[tuple[str, ...]]:
    return {tuple(tokens[start : start + NGRAM]) for start in range(len(tokens) - NGRAM + 1)}


class Leak(NamedTuple):
    """A held-out sentence that is also in training, exactly or nearly."""

    split: str
    number: int
    exact: bool


class HeldOut:
    """An index of the sentences of one side in all splits except train. Only these are in memory."""

    def __init__(self) -> None:
        self._exact: dict[str, tuple[str, int]] = {}
        self._same_words: dict[tuple[str, ...], tuple[str, int]] = {}
        self._ngrams: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        self._sentences: list[tuple[str, int, int]] = []
        self._last: tuple[str, Leak | None] = ("", None)

    def add(self, split: str, number: int, text: str) -> None:
        tokens = words(text)
        if not tokens or text in self._exact:
            return
        self._exact[text] = split, number
        self._same_words.setdefault(tuple(tokens), (split, number))
        ngrams = _ngrams(tokens)
        if len(ngrams) < MIN_NGRAMS:
            return
        for ngram in ngrams:
            self._ngrams[ngram].append(len(self._sentences))
        self._sentences.append((split, number, len(ngrams)))

    def same(self, text: str) -> Leak | None:
        """The held-out sentence with the same text or the same words."""
        if text in self._exact:
            return Leak(*self._exact[text], exact=True)
        same_words = self._same_words.get(tuple(words(text)))
        return Leak(*same_words, exact=False) if same_words else None

    def leak(self, text: str) -> Leak | None:
        """The held-out sentence that a side of a training pair repeats: with the same text, the same words, or most of
        its 5-grams.

        A sentence with fewer than seven words is found only by the same words.
        """
        if text != self._last[0]:
            self._last = text, self._find(text)
        return self._last[1]

    def _find(self, text: str) -> Leak | None:
        if same := self.same(text):
            return same
        shared = Counter(sentence for ngram in _ngrams(words(text)) for sentence in self._ngrams.get(ngram, ()))
        for sentence, count in shared.items():
            split, number, ngrams = self._sentences[sentence]
            if count >= MIN_SHARED * ngrams:
                return Leak(split, number, exact=False)
        return None


def index_held_out(
    corpora: Iterable[DataSettings],
    languages: Direction,
    read: Callable[[DataSettings, str], Iterable[Line]] = read_raw,
) -> tuple[HeldOut, HeldOut]:
    """The sentences of all splits except train of these corpora, in each of two languages."""
    indices = HeldOut(), HeldOut()
    for corpus in corpora:
        for split in (split for split in corpus.splits if split != "train"):
            for line in read(corpus, split):
                for language, text in zip(corpus.languages, line.text, strict=True):
                    if language in languages:
                        indices[languages.index(language)].add(split, line.number, text)
    return indices


def overlap_notes(train: Iterable[Pair], scored: dict[str, list[Pair]]) -> list[str]:
    """A line for each split in `scored` with sentences that are also in training pairs, or with the same words."""
    held_out = {split: HeldOut() for split in scored}
    for split, pairs in scored.items():
        for number, pair in enumerate(pairs):
            for text in pair:
                held_out[split].add(split, number, text)
    texts = {text for pair in train for text in pair}
    found = {leak[:2] for text in texts for one in held_out.values() if (leak := one.same(text))}
    counts = Counter(split for split, _ in found)
    return [
        f"{split}: a side of {counts[split]:,} of {len(pairs):,} sentences is in train too (the doctor lists them)"
        for split, pairs in scored.items()
        if counts[split]
    ]
