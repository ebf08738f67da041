"""Data augmentation of the training split: another segmentation in every epoch, and every pair in both directions."""

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from transformer.data.datamodule import TranslationData
from transformer.data.encoded import EncodedSplit
from transformer.data.mmap import IdArray
from transformer.data.tokenizer import Tokenizer


def augmented(data: TranslationData, bpe_dropout: float) -> EncodedSplit:
    """The training split, augmented as the settings say. Raises ValueError where the tokenizers cannot do it."""
    source, target = data.source_tokenizer, data.target_tokenizer
    if bpe_dropout and source.kind not in ("bpe", "unigram"):
        raise ValueError(f"training.bpe_dropout needs tokenizer=bpe or unigram, not {source.kind}")
    if data.settings.both_directions and source.model != target.model:
        raise ValueError("data.both_directions=true needs one vocabulary for both languages: tokenizer.joint=true")
    if data.settings.both_directions and not source.prefix:
        raise ValueError("data.both_directions=true needs tags of the languages, which init_from= has learned without")
    if bpe_dropout or data.settings.both_directions:
        return AugmentedSplit(data, bpe_dropout)
    return data.split("train")


class AugmentedSplit(EncodedSplit):
    """The pairs with random segmentations (`bpe_dropout`; see `Tokenizer.sample_segmentation`) and, with
    `data.both_directions`, all of them again from target to source, begun with the tag that asks for the source's
    language.

    A pair's segmentation depends on seed, epoch and number alone, so none is kept: an epoch begins by segmenting all
    pairs for their lengths, from which batches are formed, and each batch segments its own pairs again.
    """

    def __init__(self, data: TranslationData, bpe_dropout: float) -> None:
        super().__init__(data.split("train").folder)
        self.tokenizers, self.bpe_dropout = (data.source_tokenizer, data.target_tokenizer), bpe_dropout
        self.longest_side, self.seed, self.both = data.settings.max_length, data.seed, data.settings.both_directions
        source = data.source_tokenizer
        self.backward_tokenizer = Tokenizer(
            source.model, source.kind, target_language_tag=data.settings.source_language
        )
        self.pairs, self.resampled_each_epoch = len(self.lines), bpe_dropout > 0
        self._lengths: tuple[int, NDArray[np.int64]] | None = None  # of an epoch
        if self.both:
            self.lines = np.tile(self.lines, 2)

    @property
    def longest(self) -> int:
        """Tokens of the longest side of any pair, however it is segmented."""
        return self.longest_side + len(self.backward_tokenizer.prefix) if self.resampled_each_epoch else super().longest

    def lengths(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.resampled_each_epoch:
            # Needed twice before the first epoch: to count its batches, and to form them.
            if self._lengths is None or self._lengths[0] != epoch:
                pairs = (self.pair(epoch, number) for number in range(len(self)))
                self._lengths = epoch, np.array([[len(source), len(target)] for source, target in pairs])
            return self._lengths[1][:, 0], self._lengths[1][:, 1]
        source, target = self.source.lengths, self.target.lengths
        if not self.both:
            return source, target
        tags = len(self.tokenizers[0].prefix), len(self.backward_tokenizer.prefix)
        return np.concatenate([source, target + tags[1]]), np.concatenate([target, source - tags[0]])

    def pair(self, epoch: int, number: int) -> tuple[IdArray, IdArray]:
        source, target = super().pair(epoch, number % self.pairs)
        if self.resampled_each_epoch:
            # SentencePiece's generator takes 32 bits.
            [seed] = np.random.SeedSequence([self.seed, epoch, number]).generate_state(1).tolist()
            sentencepiece.set_random_generator_seed(seed)
            sides = zip(self.tokenizers, (source, target), strict=True)
            sampled = [
                np.array(tokenizer.sample_segmentation(side.tolist(), self.bpe_dropout)) for tokenizer, side in sides
            ]
            if max(map(len, sampled)) <= self.longest_side:
                source, target = sampled
        if number < self.pairs:
            return source, target
        return np.array([*self.backward_tokenizer.prefix, *target]), source[len(self.tokenizers[0].prefix) :]
