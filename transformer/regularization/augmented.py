"""The training split as no two epochs have it: words cut anew, and every pair in both directions."""

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from transformer.data.datamodule import TranslationData
from transformer.data.prepared import PreparedSplit
from transformer.data.tokenizer import Tokenizer
from transformer.storage.flat import Ids


def augmented(data: TranslationData, bpe_dropout: float) -> PreparedSplit:
    """What training is to be served.

    Raises ValueError where the tokenisers cannot do it.
    """
    source, target = data.source_tokenizer, data.target_tokenizer
    if bpe_dropout and source.kind not in ("bpe", "unigram"):
        raise ValueError(f"training.regularization.bpe_dropout needs tokenizer=bpe or unigram, not {source.kind}")
    if data.settings.both_directions and source.model != target.model:
        raise ValueError("data.both_directions=true needs one vocabulary for both languages: tokenizer.joint=true")
    if data.settings.both_directions and not source.prefix:
        raise ValueError("data.both_directions=true needs tags of the languages, which start_from= has learned without")
    plain = not (bpe_dropout or data.settings.both_directions)
    return data.split("train") if plain else AugmentedSplit(data, bpe_dropout)


class AugmentedSplit(PreparedSplit):
    """Serves the pairs cut at random (`bpe_dropout`; see `Tokenizer.cut_anew`) and, with `data.both_directions`, once
    more the other way round: target to source, begun with the tag that asks for the source's language.

    A pair's cut depends on seed, epoch and number alone; lengths are those of the usual cut, by which batches are made.
    """

    def __init__(self, data: TranslationData, bpe_dropout: float) -> None:
        super().__init__(data.split("train").folder)
        self.tokenizers, self.bpe_dropout = (data.source_tokenizer, data.target_tokenizer), bpe_dropout
        self.longest_side, self.seed, self.both = data.settings.max_length, data.seed, data.settings.both_directions
        source = data.source_tokenizer
        self.back = Tokenizer(source.model, source.kind, asks_for=data.settings.source_language)
        self.pairs = len(self.lines)
        if self.both:
            self.lines = np.tile(self.lines, 2)

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        there, back = self.source.lengths, self.target.lengths
        return np.concatenate([there, back + len(self.back.prefix)]) if self.both else there

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        there, back = self.target.lengths, self.source.lengths
        return np.concatenate([there, back - len(self.tokenizers[0].prefix)]) if self.both else there

    def pair(self, epoch: int, number: int) -> tuple[Ids, Ids]:
        source, target = super().pair(epoch, number % self.pairs)
        if self.bpe_dropout:
            # SentencePiece's generator takes 32 bits.
            [seed] = np.random.SeedSequence([self.seed, epoch, number]).generate_state(1).tolist()
            sentencepiece.set_random_generator_seed(seed)
            sides = zip(self.tokenizers, (source, target), strict=True)
            cut = [np.array(tokenizer.cut_anew(side.tolist(), self.bpe_dropout)) for tokenizer, side in sides]
            if max(map(len, cut)) <= self.longest_side:
                source, target = cut
        if number < self.pairs:
            return source, target
        return np.array([*self.back.prefix, *target]), source[len(self.tokenizers[0].prefix) :]
