"""A corpus made ready for training: tokenizers, ids, batches."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path

import torch
from lightning import LightningDataModule
from rich.progress import track
from torch.utils.data import DataLoader, Dataset

from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler
from transformer.data.corpus import DataSettings, Pair, digest_of
from transformer.data.encoded import EncodedSplit, write_split
from transformer.data.languages import language_faults
from transformer.data.printable import console
from transformer.data.synthetic import SYNTHETIC, check_synthetic, read_synthetic, synthetic_files
from transformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer
from transformer.files import cached_folder

# Part of every cache key: raise it when the files' layout or the way of encoding changes.
FORMAT = 3
# Pairs from which the languages are recognized: more than enough, and read in a second or two.
LANGUAGE_SAMPLE = 5000


class TranslationData(LightningDataModule):
    """A corpus as Lightning's data module: trains (or finds in the cache) the tokenizers at once, unless given; encodes
    splits when they are asked for."""

    def __init__(
        self,
        settings: DataSettings,
        tokenizer: TokenizerSettings,
        seed: int,
        tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    ) -> None:
        super().__init__()
        settings.fetch()
        self.settings = settings.with_splits()
        #: What a user should know of the corpus before training, line by line.
        self.notes = [*self.settings.cut_from(settings), *self._check_languages()]
        settings = self.settings
        self.tokenizer_settings, self.seed = tokenizer, seed
        self.cache = Path(settings.cache).expanduser()
        self.digests = {split: settings.digest(split) for split in settings.splits}
        if settings.synthetic:
            check_synthetic(settings)
            self.digests[SYNTHETIC] = digest_of([path for files in synthetic_files(settings) for path in files])
        source, self.target_tokenizer = tokenizers or self._tokenizers()
        self.source_tokenizer = Tokenizer(source.model, source.kind, target_language_tag=settings.target_language)
        #: Of the synthetic pairs' sources: with their tag, if they have one.
        self.synthetic_tokenizer = Tokenizer(
            source.model, source.kind, settings.target_language, is_synthetic=settings.synthetic_tag
        )
        # By name, as soon as they are prepared; training's may be replaced by one that is augmented.
        self.splits: dict[str, EncodedSplit] = {}
        # The dataset of a split, where that is not PairDataset.
        self.datasets: dict[str, Dataset[Batch]] = {}
        # Where training begins: an epoch, and how many of its batches a resumed run has had already.
        self.start = (0, 0)

    def _check_languages(self) -> list[str]:
        """Reads the first pairs. Raises ValueError if source and target are swapped; other faults are returned."""
        is_swapped, faults = language_faults(
            islice(self.settings.read("train"), LANGUAGE_SAMPLE), self.settings.languages
        )
        if is_swapped:
            raise ValueError(
                f"source and target are swapped: {'; '.join(faults)}; swap data.columns, or the names of the files"
            )
        return faults

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings, with_tag = self.tokenizer_settings, self.settings.synthetic_tag
        tagged = self.settings.languages if self.settings.both_directions else ()

        def make(folder: Path) -> None:
            # One vocabulary learns from both sides; two learn from one each.
            for name, sides in (
                {"joint": (0, 1)}.items() if settings.joint else {"source": (0,), "target": (1,)}.items()
            ):
                pairs = chain(self._read("train"), self._read(SYNTHETIC))
                tokenizer = train_tokenizer(
                    (pair[side] for pair in pairs for side in sides), settings, tagged, with_tag
                )
                (folder / f"{name}.model").write_bytes(tokenizer.model)

        texts = self.digests["train"], self.digests.get(SYNTHETIC)
        key = _digest([FORMAT, asdict(settings), texts, self.settings.languages, tagged, with_tag])
        folder = cached_folder(self.cache / f"tokenizer-{key}", make)
        names = ("joint", "joint") if settings.joint else ("source", "target")
        source, target = (Tokenizer((folder / f"{name}.model").read_bytes(), settings.kind) for name in names)
        return source, target

    def _read(self, name: str) -> Iterator[Pair]:
        return read_synthetic(self.settings) if name == SYNTHETIC else self.settings.read(name)

    def split(self, name: str) -> EncodedSplit:
        """The ids of a split, or of the synthetic pairs, encoded now unless a run before this one did."""
        if name not in self.splits:
            source = self.synthetic_tokenizer if name == SYNTHETIC else self.source_tokenizer
            settings, tokenizers = self.settings, (source, self.target_tokenizer)
            keep_all = name not in ("train", SYNTHETIC)

            def make(folder: Path) -> None:
                # Read once before: mistakes are found at once, and the progress bar knows the total.
                total = sum(1 for _ in self._read(name))
                bar = console(stderr=True)
                # Without a terminal the bar would leave an empty line, where an error has one line for itself.
                off = not bar.is_terminal
                pairs = track(self._read(name), f"encoding {name}", total, console=bar, transient=True, disable=off)
                write_split(folder, pairs, tokenizers, settings.max_length, keep_all)

            models = [hashlib.sha256(tokenizer.model).hexdigest() for tokenizer in tokenizers]
            key = _digest(
                [FORMAT, self.digests[name], models, settings.languages, settings.max_length, keep_all, source.prefix]
            )
            split = EncodedSplit(cached_folder(self.cache / f"ids-{key}", make))
            if not len(split):
                files = settings.splits.get(name, ", ".join(settings.synthetic))
                raise ValueError(f"no pair of {files} has 1 to {settings.max_length} tokens a side")
            self.splits[name] = split
        return self.splits[name]

    def texts(self, name: str) -> list[Pair]:
        """The pairs of a split as text, for scoring."""
        return list(self.settings.read(name))

    def loader(self, name: str) -> DataLoader[Batch]:
        """Batches of a split for this process; only training is shuffled."""
        split, train = self.split(name), name == "train"
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        accumulated = self.trainer.accumulate_grad_batches if self.trainer and train else 1
        start = self.start if train else (0, 0)
        sampler = TokenBudgetSampler(
            split, self.settings.batch_tokens, self.seed, train, rank, world, accumulated, start
        )
        dataset = self.datasets.get(name) or PairDataset(split)
        # Batches made on the CPU may be made ahead by workers, and are pinned, so that a GPU can fetch them meanwhile.
        on_cpu = isinstance(dataset, PairDataset)
        workers, pin = self.settings.workers if train and on_cpu else 0, on_cpu and torch.cuda.is_available()
        # An index is a whole batch already.
        return DataLoader(dataset, batch_size=None, sampler=sampler, num_workers=workers, pin_memory=pin)

    def train_dataloader(self) -> DataLoader[Batch]:
        return self.loader("train")

    def val_dataloader(self) -> DataLoader[Batch]:
        return self.loader("validation")

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return [self.loader(name) for name in ("test", *self.settings.extra_tests)]


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]
