"""The pairs for training: with random segmentations in every epoch, several directions, and synthetic pairs."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from random import Random

import numpy as np
from numpy.typing import NDArray

from transformer.data.datamodule import TranslationData
from transformer.data.directions import direction_name
from transformer.data.encoded import Lengths, Split
from transformer.data.mmap import IntArray
from transformer.data.synthetic import SYNTHETIC
from transformer.data.tokenizer import Tokenizer, check_tokenizer_use

MAX_KEPT = 200_000  # pairs whose segmentations are kept for an epoch: about 60 MB


class ResampledSplit(Split):
    """The pairs of a split with random segmentations (`bpe_dropout`; see `SubwordSampler.sample`).

    A pair's segmentation depends only on `seed`, epoch and index. At the beginning of an epoch all pairs are segmented,
    because batches are formed by length. A split with at most MAX_KEPT pairs keeps them in memory for the epoch; a
    larger one segments the pairs of each batch again.
    """

    resampled_each_epoch = True

    def __init__(
        self,
        split: Split,
        tokenizers: tuple[Tokenizer, Tokenizer],
        bpe_dropout: float,
        longest: int,
        seed: Sequence[int],
    ) -> None:
        self.split, self.tokenizers, self.bpe_dropout = split, tokenizers, bpe_dropout
        self.longest_side, (self.seed, *self.more_seeds) = longest, seed
        # For the present epoch: all lengths, and the pairs if they are kept.
        self._lengths: tuple[int, Lengths] | None = None
        self._kept: list[tuple[IntArray, IntArray]] = []

    def __len__(self) -> int:
        return len(self.split)

    @property
    def longest(self) -> int:
        """The limit for all segmentations."""
        return self.longest_side

    def lengths(self, epoch: int) -> Lengths:
        # Kept, because the first epoch needs them twice: to count its batches, and to form them.
        if self._lengths is None or self._lengths[0] != epoch:
            self._lengths, self._kept = None, []
            pairs: Iterable[tuple[IntArray, IntArray]] = (self.pair(epoch, index) for index in range(len(self)))
            kept = list(pairs) if len(self) <= MAX_KEPT else []
            of_pairs = ((len(source), len(target)) for source, target in kept or pairs)
            both: IntArray = np.fromiter(of_pairs, np.dtype((np.int32, 2)), len(self))  # no list of millions
            self._lengths, self._kept = (epoch, (both[:, 0], both[:, 1])), kept
        return self._lengths[1]

    def pair(self, epoch: int, index: int) -> tuple[IntArray, IntArray]:
        if self._kept and self._lengths is not None and self._lengths[0] == epoch:
            return self._kept[index]
        pair = self.split.pair(epoch, index)
        random = Random(":".join(map(str, (self.seed, epoch, index, *self.more_seeds))))
        source, target = (
            np.array(tokenizer.sample_segmentation(side.tolist(), self.bpe_dropout, random), np.int32)
            for tokenizer, side in zip(self.tokenizers, pair, strict=True)
        )
        return (source, target) if max(len(source), len(target)) <= self.longest_side else pair

    def pair_number(self, epoch: int, index: int) -> str:
        return self.split.pair_number(epoch, index)


class DrawnSplit(Split):
    """`in_epoch` pairs of a split in every epoch. All pairs are shuffled and used before one is used again; `seed` and
    the round decide the order."""

    def __init__(self, split: Split, in_epoch: int, seed: Sequence[int]) -> None:
        self.split, self.in_epoch, self.seed = split, in_epoch, seed
        self.resampled_each_epoch = in_epoch != len(split) or split.resampled_each_epoch
        self._drawn: tuple[int, NDArray[np.int64]] | None = None  # an epoch and its indices

    def __len__(self) -> int:
        return self.in_epoch

    @property
    def longest(self) -> int:
        return self.split.longest

    def drawn(self, epoch: int) -> NDArray[np.int64]:
        """The indices of an epoch's pairs in the split."""
        if self._drawn is None or self._drawn[0] != epoch:
            total = len(self.split)
            rounds, places = np.divmod(np.arange(epoch * self.in_epoch, (epoch + 1) * self.in_epoch), total)
            indices = np.empty(self.in_epoch, np.int64)
            for number in np.unique(rounds).tolist():
                order = np.random.default_rng([*self.seed, number]).permutation(total)
                indices[rounds == number] = order[places[rounds == number]]
            self._drawn = epoch, indices
        return self._drawn[1]

    def lengths(self, epoch: int) -> Lengths:
        drawn = self.drawn(epoch)
        source, target = self.split.lengths(epoch)
        return source[drawn], target[drawn]

    def pair(self, epoch: int, index: int) -> tuple[IntArray, IntArray]:
        return self.split.pair(epoch, int(self.drawn(epoch)[index]))

    def pair_number(self, epoch: int, index: int) -> str:
        return self.split.pair_number(epoch, int(self.drawn(epoch)[index]))


class JoinedSplit(Split):
    """Several splits, one after another. `pair_number` begins with the name of the split, if it has one."""

    def __init__(self, parts: dict[str, Split]) -> None:
        self.parts, self.names = [*parts.values()], [*parts]
        self.starts = [0, *accumulate(map(len, self.parts))]
        self.resampled_each_epoch = any(part.resampled_each_epoch for part in self.parts)

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def longest(self) -> int:
        return max(part.longest for part in self.parts)

    def lengths(self, epoch: int) -> Lengths:
        source, target = (
            np.concatenate(sides) for sides in zip(*(part.lengths(epoch) for part in self.parts), strict=True)
        )
        return source, target

    def pair(self, epoch: int, index: int) -> tuple[IntArray, IntArray]:
        part = bisect_right(self.starts, index) - 1
        return self.parts[part].pair(epoch, index - self.starts[part])

    def pair_number(self, epoch: int, index: int) -> str:
        part = bisect_right(self.starts, index) - 1
        pair_number = self.parts[part].pair_number(epoch, index - self.starts[part])
        return f"{self.names[part]} {pair_number}" if self.names[part] else pair_number


def pairs_per_epoch(pairs: Sequence[int], temperature: float) -> list[int]:
    """The number of pairs of each direction in an epoch: in proportion to (its own pairs)^(1/temperature), so that
    directions with few pairs come more often (Arivazhagan et al. 2019, section 4.2); with 1, its own number."""
    weights = [(count / sum(pairs)) ** (1 / temperature) for count in pairs]
    return [max(1, round(sum(pairs) * weight / sum(weights))) for weight in weights]


def build_training_split(data: TranslationData, bpe_dropout: float) -> Split:
    """The training pairs for the settings. Raises ValueError if the tokenizers do not allow them."""
    source, settings = data.source_tokenizer, data.settings
    # The settings do not describe the tokenizers of a pretrained model.
    is_joint = source.model == data.target_tokenizer.model
    check_tokenizer_use(source.kind, is_joint, len(settings.all_directions), bpe_dropout, settings.placeholders)

    def part(name: str, number: int) -> Split:
        split: Split = data.split(name)
        if settings.placeholders or settings.robust:
            split = JoinedSplit({"": split, "variant": data.variants(name)})
        if not bpe_dropout:
            return split
        return ResampledSplit(
            split, data.tokenizers(name), bpe_dropout, settings.max_length, [data.seed, *([number] if number else [])]
        )

    def joined(split: str) -> Split | None:
        named = [
            (direction_name(corpus.languages), name) for name, (corpus, one) in data.all_splits.items() if one == split
        ]
        parts = {direction: part(name, number) for number, (direction, name) in enumerate(named)}
        if settings.direction_temperature != 1 and split != SYNTHETIC:
            counts = pairs_per_epoch([len(one) for one in parts.values()], settings.direction_temperature)
            parts = {
                direction: DrawnSplit(parts[direction], count, [data.seed, number, 1])
                for number, (direction, count) in enumerate(zip(parts, counts, strict=True))
            }
        return JoinedSplit(parts) if len(parts) > 1 else next(iter(parts.values()), None)

    real, synthetic, ratio = joined("train"), joined(SYNTHETIC), settings.synthetic_ratio
    assert real is not None
    if synthetic is None:
        return real
    in_epoch = len(synthetic) if ratio is None else max(1, round(ratio * len(real)))
    return JoinedSplit({"": real, SYNTHETIC: DrawnSplit(synthetic, in_epoch, [data.seed])})
