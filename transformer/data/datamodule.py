"""Prepares a corpus for training: tokenizers, ids, batches."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler, length_buckets, limited
from transformer.data.config import DataSettings
from transformer.data.encoded import EncodedSplit, Split, write_split
from transformer.data.formats import format_notes, heading_notes
from transformer.data.languages import LANGUAGE_SAMPLE, language_faults
from transformer.data.mmap import IntArray
from transformer.data.splitting import notes_of_cut, with_splits
from transformer.data.synthetic import (
    SYNTHETIC,
    check_synthetic,
    held_out_sentences,
    read_synthetic,
    synthetic_files,
)
from transformer.data.text_files import Pair, digest_of, read_pairs
from transformer.data.tokenizer import Tokenizer, TokenizerSettings, VocabularySizeError, train_tokenizer
from transformer.data.variants import read_variants
from transformer.device import compiles_kernel_per_shape
from transformer.files import cache_key, cached_folder, expanded
from transformer.printing import one_line, with_progress

# Part of every cache key: raise it when the files' layout or the way of encoding changes.
FORMAT = 10


class BatchLoader(DataLoader[Batch]):
    """torch's DataLoader, with an error that names the setting if its worker processes fail."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        try:
            yield from super().__iter__()
        except (OSError, EOFError) as error:
            if not self.num_workers:
                raise
            reason = f"data.workers={self.num_workers} cannot prepare batches ({one_line(error, 300)})"
            raise ValueError(f"{reason}: with data.workers=0 the training process does it") from error


class TranslationData(LightningDataModule):
    """A corpus as Lightning's data module. It trains the tokenizers at once (or finds them in the cache), or takes
    given ones and adds the tags that its directions need. It encodes a split when the split is used."""

    def __init__(
        self,
        settings: DataSettings,
        tokenizer: TokenizerSettings,
        seed: int,
        tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    ) -> None:
        super().__init__()
        settings.fetch()
        self.settings = with_splits(settings)
        #: Lines about the corpus to print before training.
        self.notes = [*notes_of_cut(self.settings, settings), *heading_notes(settings), *format_notes(settings)]
        self.notes += self._check_languages()
        settings = self.settings
        self.tokenizer_settings, self.seed = tokenizer, seed
        self.cache = expanded(settings.cache)
        #: Every split in every direction, also synthetic pairs: the corpus of one direction, the split's name in it.
        self.all_splits = dict(settings.all_splits)
        self.digests = {name: settings.digest(name) for name in self.all_splits}
        if settings.synthetic:
            self._add_synthetic()
        self._untagged_source, self.target_tokenizer = (
            (one.with_tags(*self._tags) for one in tokenizers) if tokenizers else self._train_tokenizers()
        )
        self.source_tokenizer = self.source_tokenizer_to(settings.target_language)
        # The encoded splits, by name.
        self.encoded: dict[str, EncodedSplit] = {}
        # The pairs of training: `build_training_split` of all directions.
        self.training_split: Split | None = None
        # The dataset of a split, if it is not PairDataset.
        self.datasets: dict[str, Dataset[Batch]] = {}
        # Whether the batches of training are padded to few lengths, so that there are few shapes.
        self.is_bucketed = bool(settings.length_buckets)

    def _check_languages(self) -> list[str]:
        """Reads the first pairs. Raises ValueError if source and target are swapped; other faults are returned."""
        all_faults = []
        for corpus in self.settings.with_own_pairs:
            is_swapped, faults = language_faults(islice(corpus.read("train"), LANGUAGE_SAMPLE), corpus.languages)
            if is_swapped:
                source, target = self.settings.columns or (1, 2)
                raise ValueError(
                    f"source and target are swapped: {'; '.join(faults)}; swap the names of two files, or those in the "
                    f"first line of a table; for a table without names give data.columns=[{target},{source}]"
                )
            all_faults += faults
        return list(dict.fromkeys(all_faults))

    def _add_synthetic(self) -> None:
        self.settings.check_synthetic_files()
        held_out = held_out_sentences(self.settings)
        for name, (corpus, split) in self.settings.all_splits.items():
            if split == "train" and corpus.synthetic:
                check_synthetic(corpus, held_out)
                name = name.replace("train", SYNTHETIC, 1)
                self.all_splits[name] = corpus, SYNTHETIC
                self.digests[name] = digest_of([path for files in synthetic_files(corpus) for path in files])

    def source_tokenizer_to(self, target_language: str, is_synthetic: bool = False) -> Tokenizer:
        """The tokenizer for sources that are translated into a language: with the tag of this language, and that of
        synthetic pairs, if the vocabulary has them."""
        return Tokenizer(self._untagged_source.model, self._untagged_source.kind, target_language, is_synthetic)

    def tokenizers(self, name: str) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers for the sources and the targets of a split."""
        corpus, split = self.all_splits[name]
        is_tagged = split == SYNTHETIC and self.settings.synthetic_tag
        return self.source_tokenizer_to(corpus.target_language, is_tagged), self.target_tokenizer

    @property
    def _tags(self) -> tuple[list[str], bool, bool]:
        """The target languages that need a tag (if there are several directions); whether synthetic pairs have a tag;
        whether there are placeholders."""
        directions = self.settings.all_directions
        targets = [one for one in self.settings.all_languages if one in {target for _, target in directions}]
        return targets if len(directions) > 1 else [], self.settings.synthetic_tag, self.settings.placeholders > 0

    def _train_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings = self.tokenizer_settings

        def make(folder: Path) -> None:
            # A joint vocabulary learns from both sides; two vocabularies learn from one side each.
            vocabularies = {"joint": (0, 1)} if settings.joint else {"source": (0,), "target": (1,)}
            for name, sides in vocabularies.items():
                tokenizer = self._fitting_tokenizer(sides)
                (folder / f"{name}.model").write_bytes(tokenizer.model)

        texts = [digest for name, digest in self.digests.items() if self.all_splits[name][1] in ("train", SYNTHETIC)]
        key = cache_key([FORMAT, asdict(settings), texts, self.settings.all_languages, *self._tags])
        folder = cached_folder(self.cache / f"tokenizer-{key}", make)
        names = ("joint", "joint") if settings.joint else ("source", "target")
        source, target = (Tokenizer((folder / f"{name}.model").read_bytes(), settings.kind) for name in names)
        asked = settings.vocabulary_size
        for size in dict.fromkeys((len(source), len(target))):
            if settings.kind in ("bpe", "unigram") and size != asked:
                reason = "the corpus gives no more" if size < asked else "its characters need more"
                self.notes.append(f"tokenizer.vocabulary_size={asked} became {size:,}: {reason}")
        return source, target

    def _fitting_tokenizer(self, sides: tuple[int, ...]) -> Tokenizer:
        """A vocabulary of the size in the settings, or else of a size that the corpus allows."""
        settings = self.tokenizer_settings
        for _ in range(2):
            try:
                return train_tokenizer(self._learned_from(sides), settings, *self._tags)
            except VocabularySizeError as error:
                settings = replace(settings, vocabulary_size=error.possible)
        return train_tokenizer(self._learned_from(sides), settings, *self._tags)

    def _learned_from(self, sides: tuple[int, ...]) -> Iterator[str]:
        """The training sentences of some sides; a file that several directions share is read only once."""
        met: set[tuple[Path, str]] = set()
        for corpus, split in self.all_splits.values():
            if split not in ("train", SYNTHETIC):
                continue
            for files in synthetic_files(corpus) if split == SYNTHETIC else [corpus.files(split)]:
                texts = list(zip(files * (2 if len(files) == 1 else 1), corpus.languages, strict=True))
                new = [side for side in sides if texts[side] not in met]
                met.update(texts)
                if new:
                    columns = corpus.columns if split == "train" else None
                    for pair in read_pairs(files, *corpus.languages, columns):
                        yield from (pair[side] for side in new)

    def _read(self, name: str) -> Iterator[Pair]:
        corpus, split = self.all_splits[name]
        return read_synthetic(corpus) if split == SYNTHETIC else corpus.read(split)

    def split(self, name: str) -> EncodedSplit:
        """The ids of a split, or of the synthetic pairs; they are encoded now unless the cache has them."""
        if name not in self.encoded:
            corpus, split = self.all_splits[name]
            encoded = self._encode(name, f"encoding {name}", lambda: self._read(name), [])
            if not len(encoded):
                files = corpus.splits.get(split, ", ".join(corpus.synthetic))
                raise ValueError(f"no pair of {files} has 1 to {corpus.max_length} tokens a side (data.max_length)")
            self.encoded[name] = encoded
        return self.encoded[name]

    def variants(self, name: str) -> EncodedSplit:
        """The ids of variants of a split's training pairs (see `variants.read_variants`)."""
        corpus, _ = self.all_splits[name]

        @cache
        def read() -> list[Pair]:
            return list(read_variants(corpus))

        return self._encode(
            name, f"encoding variants of {name}", read, ["variants", corpus.placeholders, corpus.robust]
        )

    def _encode(
        self, name: str, description: str, read: Callable[[], Iterable[Pair]], more_key: list[object]
    ) -> EncodedSplit:
        """The ids of the pairs that `read` gives, from the cache if it has them."""
        (corpus, split), tokenizers = self.all_splits[name], self.tokenizers(name)
        keep_all = split not in ("train", SYNTHETIC)

        def make(folder: Path) -> None:
            # Read once to find mistakes at once, and to know the total for the progress bar.
            total = sum(1 for _ in read())
            write_split(folder, with_progress(read(), description, total), tokenizers, corpus.max_length, keep_all)

        models = [hashlib.sha256(tokenizer.model).hexdigest() for tokenizer in tokenizers]
        what = [self.digests[name], models, corpus.languages, corpus.max_length, keep_all, tokenizers[0].prefix]
        return EncodedSplit(cached_folder(self.cache / f"ids-{cache_key([FORMAT, *what, *more_key])}", make))

    def examples(self, name: str) -> Split:
        """The ids of a split, for batches; for `train` those of all directions, augmented."""
        return self.training_split if self.training_split and name == "train" else self.split(name)

    def names(self, split: str) -> list[str]:
        """The names of a split in all directions."""
        return [name for name, (_, one) in self.all_splits.items() if one == split]

    @property
    def test_names(self) -> list[str]:
        """The names of the test and of the extra tests in all directions."""
        return [name for split in ("test", *self.settings.extra_tests) for name in self.names(split)]

    def text_pairs(self, name: str, limit: int | float = 1.0) -> list[Pair]:
        """The pairs of a split as text, for scoring: all, or those of its first batches (a number or a share)."""
        pairs = list(self.settings.read(name))
        if limit == 1.0 and isinstance(limit, float):
            return pairs
        batches = [indices for _, indices in self.sampler(name)]
        return [pairs[index] for indices in batches[: limited(len(batches), limit)] for index in indices.tolist()]

    def loader(self, name: str, rank: int = 0, world_size: int = 1, accumulate: int = 1) -> DataLoader[Batch]:
        """Batches of a split for one of `world_size` processes; only training is shuffled."""
        train, sampler = name == "train", self.sampler(name, rank, world_size, accumulate)
        dataset = self.datasets.get(name) or PairDataset(self.examples(name), self.buckets(name))
        # Workers may prepare batches on the CPU in advance. The batches are pinned, so that a GPU copies them
        # meanwhile.
        on_cpu = isinstance(dataset, PairDataset)
        workers, pin = self.settings.workers if train and on_cpu else 0, on_cpu and torch.cuda.is_available()
        # An index is a whole batch already.
        return BatchLoader(dataset, batch_size=None, sampler=sampler, num_workers=workers, pin_memory=pin)

    def sampler(self, name: str, rank: int = 0, world_size: int = 1, accumulate: int = 1) -> TokenBudgetSampler:
        """The order of a split's batches for one of `world_size` processes; only training accumulates."""
        is_train = name == "train"
        return TokenBudgetSampler(
            self.examples(name),
            self.settings.batch_tokens,
            self.seed,
            shuffle=is_train,
            rank=rank,
            world_size=world_size,
            accumulate=accumulate if is_train else 1,
            buckets=self.buckets(name),
        )

    def choose_bucketing(self, accelerator: str, precision: str) -> None:
        """Chooses by device and precision whether to pad to few lengths, unless data.length_buckets is set."""
        if self.settings.length_buckets is None:
            self.is_bucketed = compiles_kernel_per_shape(accelerator, precision)

    def buckets(self, name: str) -> IntArray | None:
        """The few lengths that training batches are padded to; None for other splits, or if this is off."""
        return length_buckets(self.examples(name).longest + 1) if name == "train" and self.is_bucketed else None

    def train_dataloader(self) -> DataLoader[Batch]:
        """For Lightning's Trainer, with use_distributed_sampler=False; the loop of this project calls `loader`."""
        trainer = self.trainer
        place = (trainer.global_rank, trainer.world_size, trainer.accumulate_grad_batches) if trainer else (0, 1, 1)
        return self.loader("train", *place)

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        return [self.loader(name) for name in self.names("validation")]

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return [self.loader(name) for name in self.test_names]
