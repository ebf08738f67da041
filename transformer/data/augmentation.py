"""Data augmentation of the training split: another segmentation in every epoch, every pair in both directions, and
synthetic pairs beside the real ones."""

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from transformer.data.datamodule import TranslationData
from transformer.data.encoded import EncodedSplit
from transformer.data.mmap import IdArray
from transformer.data.synthetic import SYNTHETIC
from transformer.data.tokenizer import Tokenizer


class AugmentedSplit(EncodedSplit):
    """The pairs with random segmentations (`bpe_dropout`; see `Tokenizer.sample_segmentation`) and, with
    `data.both_directions`, all of them again from target to source, begun with the tag that asks for the source's
    language.

    A pair's segmentation depends on seed, epoch and number alone, so none is kept: an epoch begins by segmenting all
    pairs for their lengths, from which batches are formed, and each batch segments its own pairs again.
    """

    def __init__(self, data: TranslationData, name: str, bpe_dropout: float) -> None:
        super().__init__(data.split(name).folder)
        tagged = name == SYNTHETIC and data.settings.synthetic_tag
        source = data.synthetic_tokenizer if tagged else data.source_tokenizer
        self.tokenizers, self.bpe_dropout = (source, data.target_tokenizer), bpe_dropout
        self.longest_side, self.seed, self.both = data.settings.max_length, data.seed, data.settings.both_directions
        self.backward_tokenizer = Tokenizer(source.model, source.kind, data.settings.source_language, tagged)
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


class MixedSplit(EncodedSplit):
    """Real pairs, each once in every epoch, and synthetic ones beside them: each once too or, with a `ratio`, so many
    for each real pair. Then every epoch has others, until all have been used, in an order that seed and epoch decide.

    The numbers of real pairs come first. The line of a synthetic pair is 0: it is none of the corpus.
    """

    def __init__(self, real: EncodedSplit, synthetic: EncodedSplit, ratio: float | None, seed: int) -> None:
        super().__init__(real.folder)
        self.real, self.synthetic, self.seed = real, synthetic, seed
        self.in_epoch = len(synthetic) if ratio is None else max(1, round(ratio * len(real)))
        self.resampled_each_epoch = ratio is not None or real.resampled_each_epoch
        self.lines = np.concatenate([real.lines, np.zeros(self.in_epoch, np.int64)])
        self._drawn: tuple[int, NDArray[np.int64]] | None = None  # of an epoch

    @property
    def longest(self) -> int:
        return max(self.real.longest, self.synthetic.longest)

    def drawn(self, epoch: int) -> NDArray[np.int64]:
        """The numbers of an epoch's synthetic pairs: a stretch of one shuffled round through all of them after another,
        so that no pair comes again before every other has come."""
        if self._drawn is None or self._drawn[0] != epoch:
            total = len(self.synthetic)
            rounds, places = np.divmod(np.arange(epoch * self.in_epoch, (epoch + 1) * self.in_epoch), total)
            numbers = np.empty(self.in_epoch, np.int64)
            for number in np.unique(rounds).tolist():
                order = np.random.default_rng([self.seed, number]).permutation(total)
                numbers[rounds == number] = order[places[rounds == number]]
            self._drawn = epoch, numbers
        return self._drawn[1]

    def lengths(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = self.drawn(epoch)
        sides = zip(self.real.lengths(epoch), self.synthetic.lengths(epoch), strict=True)
        source, target = (np.concatenate([real, synthetic[drawn]]) for real, synthetic in sides)
        return source, target

    def pair(self, epoch: int, number: int) -> tuple[IdArray, IdArray]:
        if number < len(self.real):
            return self.real.pair(epoch, number)
        return self.synthetic.pair(epoch, int(self.drawn(epoch)[number - len(self.real)]))


def augmented(data: TranslationData, bpe_dropout: float) -> EncodedSplit:
    """The training split, augmented as the settings say. Raises ValueError where the tokenizers cannot do it."""
    source, target = data.source_tokenizer, data.target_tokenizer
    if bpe_dropout and source.kind not in ("bpe", "unigram"):
        raise ValueError(f"training.bpe_dropout needs tokenizer=bpe or unigram, not {source.kind}")
    if data.settings.both_directions and source.model != target.model:
        raise ValueError("data.both_directions=true needs one vocabulary for both languages: tokenizer.joint=true")
    if data.settings.both_directions and not source.prefix:
        raise ValueError("data.both_directions=true needs tags of the languages, which init_from= has learned without")
    if data.settings.synthetic_tag and data.synthetic_tokenizer.prefix == source.prefix:
        raise ValueError("data.synthetic_tag=true needs a tag of synthetic pairs, which init_from= has learned without")
    changes = bpe_dropout > 0 or data.settings.both_directions

    def part(name: str) -> EncodedSplit:
        return AugmentedSplit(data, name, bpe_dropout) if changes else data.split(name)

    if not data.settings.synthetic:
        return part("train")
    return MixedSplit(part("train"), part(SYNTHETIC), data.settings.synthetic_ratio, data.seed)
