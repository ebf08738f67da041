"""A corpus made ready for training: tokenisers, ids, batches."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from lightning import LightningDataModule
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch.utils.data import DataLoader

from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler
from transformer.data.corpus import DataSettings, Pair, fetch
from transformer.data.prepared import PreparedSplit, write_split
from transformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer
from transformer.storage.whole import cached_folder

# Part of every cache key: raise it when the files' layout or the way of encoding changes.
FORMAT = 1


class TranslationData(LightningDataModule):
    """Trains (or finds) the tokenisers at once; prepares and serves splits when asked."""

    def __init__(self, settings: DataSettings, tokenizer: TokenizerSettings, seed: int) -> None:
        super().__init__()
        self.settings, self.tokenizer_settings, self.seed = settings, tokenizer, seed
        self.cache = Path(settings.cache).expanduser()
        fetch(settings)
        for split in ("train", "validation", "test", *settings.others):
            settings.files(split)
        self.digests = {split: settings.digest(split) for split in ("train", "validation", "test", *settings.others)}
        self.source_tokenizer, self.target_tokenizer = self._tokenizers()
        self._splits: dict[str, PreparedSplit] = {}

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        settings = self.tokenizer_settings
        languages = [self.settings.source_language, self.settings.target_language]
        key = _digest([FORMAT, asdict(settings), self.digests["train"], languages])

        def make(folder: Path) -> None:
            for side, name in enumerate(["joint"] if settings.joint else ["source", "target"]):
                texts = (
                    text
                    for pair in self.settings.pairs("train")
                    for text in (pair if settings.joint else pair[side : side + 1])
                )
                (folder / f"{name}.model").write_bytes(train_tokenizer(texts, settings).model)

        folder = cached_folder(self.cache / f"tokenizer-{key}", make)
        names = ["joint", "joint"] if settings.joint else ["source", "target"]
        source, target = (Tokenizer((folder / f"{name}.model").read_bytes(), settings.kind) for name in names)
        return source, target

    def split(self, name: str) -> PreparedSplit:
        """The ids of a split, encoded now unless a run before this one did."""
        if name not in self._splits:
            tokenizers = [hashlib.sha256(t.model).hexdigest() for t in (self.source_tokenizer, self.target_tokenizer)]
            languages = [self.settings.source_language, self.settings.target_language]
            length, keep_all = self.settings.max_length, name != "train"
            key = _digest([FORMAT, self.settings.digest(name), tokenizers, languages, length, keep_all])

            def make(folder: Path) -> None:
                with _progress() as progress:
                    task = progress.add_task(f"encoding {name}", total=None)
                    write_split(
                        folder,
                        self.settings.pairs(name),
                        self.source_tokenizer,
                        self.target_tokenizer,
                        length,
                        keep_all,
                        lambda pairs: progress.advance(task, pairs),
                    )

            split = PreparedSplit(cached_folder(self.cache / f"ids-{key}", make))
            if not len(split):
                raise ValueError(f"no pair of {self.settings.prefix(name)} has between 1 and {length} tokens a side")
            self._splits[name] = split
        return self._splits[name]

    def texts(self, name: str) -> list[Pair]:
        """The pairs of a split as text, for scoring."""
        return list(self.settings.pairs(name))

    def loader(self, name: str) -> DataLoader[Batch]:
        """Batches of a split for this process; only training is shuffled."""
        split = self.split(name)
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        sampler = TokenBudgetSampler(split, self.settings.batch_tokens, self.seed, name == "train", rank, world)
        workers = self.settings.workers if name == "train" else 0
        return DataLoader(
            PairDataset(split),
            batch_size=None,  # an index is a whole batch already
            sampler=sampler,
            num_workers=workers,
            pin_memory=self.trainer is not None and self.trainer.accelerator.__class__.__name__ == "CUDAAccelerator",
        )

    def train_dataloader(self) -> DataLoader[Batch]:
        return self.loader("train")

    def val_dataloader(self) -> DataLoader[Batch]:
        return self.loader("validation")

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return [self.loader(name) for name in ("test", *self.settings.others)]


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
