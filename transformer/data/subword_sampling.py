"""Random segmentations of an encoded text, drawn word by word.

SentencePiece can draw them too, but the meaning of a seed depends on its release: in 0.2.1 each thread has a seed, in
0.2.2 and 0.2.3 the draws differ from process to process. Here they depend only on `random`, so that a run can be
repeated and resumed, and all its processes form the same batches.
"""

import math
from collections.abc import Collection, Iterator
from itertools import pairwise
from random import Random

from sentencepiece import SentencePieceProcessor

START = "▁"  # of a word, in the pieces of SentencePiece
IMPOSSIBLE = -math.inf  # the score of a string that is no piece


class SubwordSampler:
    """The pieces of a vocabulary of kind `bpe` or `unigram`, with their scores."""

    def __init__(self, vocabulary: SentencePieceProcessor, is_bpe: bool, uncut: Collection[str] = ()) -> None:
        """The pieces named in `uncut` are never cut."""
        ids = range(vocabulary.GetPieceSize())
        self.names: list[str] = [vocabulary.IdToPiece(id) for id in ids]
        special = (vocabulary.IsControl, vocabulary.IsUnknown, vocabulary.IsUnused, vocabulary.IsByte)
        self.fixed = {id for id in ids if self.names[id] in uncut or any(kind(id) for kind in special)}
        self.ids = {name: id for id, name in enumerate(self.names) if id not in self.fixed}
        self.scores: dict[str, float] = {name: vocabulary.GetScore(id) for name, id in self.ids.items()}
        self.longest = max(map(len, self.ids), default=0)
        self._segment = self._bpe_dropout if is_bpe else self._sample_unigram

    def sample(self, ids: list[int], strength: float, random: Random) -> list[int]:
        """Ids of the same text. `strength` is, for BPE, the probability that a merge is skipped; for unigram,
        log-probabilities are multiplied by it. A word with an unknown piece, or spelled in bytes, stays unchanged."""
        sampled: list[int] = []
        for word in self._words(ids):
            if self.fixed.isdisjoint(word):
                text = "".join([self.names[id] for id in word])
                sampled += [self.ids[piece] for piece in self._segment(text, strength, random)]
            else:
                sampled += word
        return sampled

    def _words(self, ids: list[int]) -> Iterator[list[int]]:
        word: list[int] = []
        for id in ids:
            if word and self.names[id].startswith(START):
                yield word
                word = []
            word.append(id)
        if word:
            yield word

    def _bpe_dropout(self, word: str, dropout: float, random: Random) -> list[str]:
        """BPE-dropout (Provilkov et al. 2020, algorithm 1): in every step each possible merge is skipped with
        probability `dropout`; the best of the others is done."""
        parts, known, draw = list(word), self.scores, random.random
        scores = [known.get(first + second, IMPOSSIBLE) for first, second in pairwise(parts)]
        while True:
            best, best_score = -1, IMPOSSIBLE
            for position, score in enumerate(scores):
                if score > best_score and draw() >= dropout:
                    best, best_score = position, score
            if best < 0:
                return parts
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
            del scores[best]
            for position in range(max(0, best - 1), min(best + 1, len(scores))):
                scores[position] = known.get(parts[position] + parts[position + 1], IMPOSSIBLE)

    def _sample_unigram(self, word: str, power: float, random: Random) -> list[str]:
        """Subword regularization (Kudo 2018, section 3.2): draws one of all segmentations, with a probability in
        proportion to P(segmentation)^power; the last piece is drawn first."""
        # For each beginning of the word: its possible last pieces, each with the weight of all segmentations with this
        # last piece; and the log of the sum of these weights.
        last: list[tuple[list[str], list[float]]] = [([], [])]
        totals = [0.0]
        for end in range(1, len(word) + 1):
            pieces = [word[start:end] for start in range(max(0, end - self.longest), end)]
            pieces = [one for one in pieces if one in self.scores and totals[end - len(one)] > IMPOSSIBLE]
            logs = [totals[end - len(one)] + power * self.scores[one] for one in pieces]
            largest = max(logs, default=0.0)
            weights = [math.exp(log - largest) for log in logs]
            last.append((pieces, weights))
            totals.append(largest + math.log(sum(weights)) if weights else IMPOSSIBLE)
        segments, end = list[str](), len(word)
        while end:
            segments += random.choices(*last[end])
            end -= len(segments[-1])
        return segments[::-1]
