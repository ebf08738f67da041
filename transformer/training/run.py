"""A whole run: data, model, training, the best checkpoint, the test, and what stays in the run's folder (C2)."""

import importlib.metadata
import json
import logging
import os
import platform
import subprocess
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from transformer.data.corpus import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import TokenizerSettings
from transformer.evaluation import Scores
from transformer.inference import Translator
from transformer.inference.files import write_whole
from transformer.inference.search import SearchSettings
from transformer.model import ModelConfig, Transformer
from transformer.settings import from_plain
from transformer.training.callbacks import AtomicCheckpoints, Curves, FinalValidation, Reporter
from transformer.training.module import TrainingSettings, TranslationModule
from transformer.visualization.attention import draw_attention

LoggerName = Literal["csv", "tensorboard", "wandb"]


@dataclass(frozen=True)
class RunSettings:
    """The typed settings of a run: all but the model's, whose vocabularies the tokenisers decide, and the Trainer's."""

    seed: int
    loggers: list[LoggerName]
    data: DataSettings
    tokenizer: TokenizerSettings
    training: TrainingSettings
    validation_search: SearchSettings
    search: SearchSettings


@dataclass
class Result:
    """How a run ended: scores a split and three sample translations of the test set."""

    scores: dict[str, Scores]
    samples: list[tuple[str, str, str]]


def run(
    settings: RunSettings, model: dict[str, Any], trainer: dict[str, Any], folder: Path, resume: Path | None
) -> Result:
    """Trains, tests the best checkpoint and leaves a whole folder behind.

    `resume` continues from a checkpoint of the same folder. Raises ValueError or OSError, before any work, for settings
    that cannot be.
    """
    started = time.monotonic()
    _check_writable(folder)
    _quiet()
    seed_everything(settings.seed, verbose=False)
    data = TranslationData(settings.data, settings.tokenizer, settings.seed)
    vocabularies = {"source_vocabulary": len(data.source_tokenizer), "target_vocabulary": len(data.target_tokenizer)}
    config = from_plain(ModelConfig, model | vocabularies, "model")
    _check_lengths(data, config)
    translator = Translator(
        Transformer(config),
        data.source_tokenizer,
        data.target_tokenizer,
        settings.data.source_language,
        settings.data.target_language,
    )
    texts = {name: data.texts(name) for name in ("validation", "test", *settings.data.others)}
    module = TranslationModule(translator, settings.training, texts, settings.validation_search, settings.search)
    lightning = _trainer(settings, trainer, folder, module, resume)
    if lightning.is_global_zero:
        _show(data, translator)
    lightning.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
    best = folder / "checkpoints" / "best.ckpt"
    lightning.test(module, datamodule=data, ckpt_path=best, weights_only=True, verbose=False)
    samples = [(*texts["test"][i], module.test_outputs["test"][i]) for i in _spread(len(texts["test"]), 3)]
    if lightning.is_global_zero:
        translator.save(folder / "translator.safetensors")
        _write_results(folder, module, data, time.monotonic() - started)
        source, _, translation = min(samples, key=lambda sample: len(sample[0]))
        _draw_attention(translator, source, translation, folder / "attention")
    return Result(module.test_scores, samples)


def _trainer(
    settings: RunSettings, arguments: dict[str, Any], folder: Path, module: TranslationModule, resume: Path | None
) -> Trainer:
    checkpoints = {"dirpath": folder / "checkpoints", "enable_version_counter": False}
    pairs = module.texts["validation"]
    samples = [pairs[i] for i in _spread(len(pairs), settings.training.samples)]
    callbacks: list[Callback] = [
        LearningRateMonitor("step"),
        EarlyStopping("validation/bleu", mode="max", patience=settings.training.patience),
        # First what the others rely on: a validation at the very end.
        FinalValidation(),
        Curves(folder),
        Reporter(module.translator, samples, settings.validation_search),
        ModelCheckpoint(**checkpoints, filename="best", monitor="validation/bleu", mode="max"),
        ModelCheckpoint(**checkpoints, filename="last"),
    ]
    return Trainer(
        **arguments,
        default_root_dir=folder,
        callbacks=callbacks,
        logger=[_logger(name, folder, resume) for name in settings.loggers],
        plugins=[AtomicCheckpoints()],
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        check_val_every_n_epoch=None,
        val_check_interval=settings.training.validate_every * int(arguments.get("accumulate_grad_batches", 1)),
    )


def _logger(name: LoggerName, folder: Path, resume: Path | None) -> Logger:
    if name == "tensorboard":
        return TensorBoardLogger(folder, name="", version="tensorboard")
    if name == "wandb":
        return WandbLogger(save_dir=folder)
    metrics = folder / "metrics.csv"
    earlier = metrics.read_text() if resume and metrics.exists() else None
    logger = CSVLogger(folder, name="", version="")
    if earlier is not None:
        # Lightning empties the file of a folder that it finds: a resumed run keeps its history.
        writer = logger.experiment
        metrics.write_text(earlier)
        writer.metrics_keys = sorted(earlier.splitlines()[0].split(","))
    return logger


def _check_writable(folder: Path) -> None:
    """A full or read-only disk is found out before training, not after it."""
    probe = folder / f".{os.getpid()}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # As much as a small run leaves behind.
        write_whole(probe, bytes(64 << 20))
    except OSError as error:
        raise OSError(f"the run's folder {folder} cannot be written: {error.strerror or error}") from error
    finally:
        probe.unlink(missing_ok=True)


def _check_lengths(data: TranslationData, config: ModelConfig) -> None:
    """Raises ValueError when a sentence that is kept is longer than the model's positions."""
    for name in ("train", "validation", "test", *data.settings.others):
        report = data.split(name).report
        longest = max(report.source.longest, report.target.longest) + 1
        if longest > config.max_length:
            raise ValueError(
                f"model.max_length={config.max_length} is less than the longest sentence of {name} needs ({longest} "
                f"tokens with its end): raise it to {longest}, or lower data.max_length to {config.max_length - 1}"
            )


def _quiet() -> None:
    """Lightning's own advice is about choices that are ours, and its tips are no results."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", module="torch.utils.data")


def _show(data: TranslationData, translator: Translator) -> None:
    """The table of corpus and model that stands before training, on stderr."""
    console = Console(stderr=True, highlight=False)
    settings = data.settings
    table = Table(title=f"{settings.name}: {settings.source_language} → {settings.target_language}", box=SIMPLE)
    sides = (settings.source_language, settings.target_language)
    headings = ["pairs", *(f"{what} {side}" for what in ("tokens", "longest", "unknown") for side in sides), "too long"]
    table.add_column("split")
    for heading in [*headings, "empty"]:
        table.add_column(heading, justify="right")
    notes = []
    for name in ("train", "validation", "test", *settings.others):
        report = data.split(name).report
        counts = (report.source, report.target)
        table.add_row(
            name,
            f"{report.pairs:,}",
            *(f"{side.tokens:,}" for side in counts),
            *(f"{side.longest:,}" for side in counts),
            *(f"{side.unknown / max(1, side.tokens):.2%}" for side in counts),
            f"{report.too_long_count:,}",
            f"{report.empty_count:,}",
        )
        fate = "left out" if name == "train" else "cut"
        for kind, lines, count in (
            (f"over data.max_length={settings.max_length} tokens", report.too_long, report.too_long_count),
            ("empty on a side", report.empty, report.empty_count),
        ):
            if count:
                more = ", …" if count > 10 else ""
                notes.append(f"{name}: {count:,} {kind}, {fate}: lines {', '.join(map(str, lines[:10]))}{more}")
    console.print(table, *notes, sep="\n")
    model, config = translator.model, translator.model.config
    parts = {
        "encoder": sum(weight.numel() for weight in model.encoder.layers.parameters()),
        "decoder": sum(weight.numel() for weight in model.decoder.layers.parameters()),
    }
    total = sum(weight.numel() for weight in model.parameters())
    parts["embeddings and output"] = total - sum(parts.values())
    console.print(
        f"model: {config.encoder.layers} + {config.decoder.layers} layers, dim {config.dim}, {config.positions} positions",
        f"{total:,} parameters: " + ", ".join(f"{name} {count:,}" for name, count in parts.items()),
        sep="\n",
    )


def _spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` places spread over `count`."""
    return sorted({(2 * i + 1) * count // (2 * wanted) for i in range(wanted)})


def _write_results(folder: Path, module: TranslationModule, data: TranslationData, seconds: float) -> None:
    for split, outputs in module.test_outputs.items():
        text = "".join(f"{outputs[i]}\n" for i in range(len(outputs)))
        write_whole(folder / f"hypotheses.{split}.txt", text.encode())
    results = {split: scores.plain() for split, scores in module.test_scores.items()} | {
        "versions": versions(),
        "corpus": data.digests,
        "revision": revision(),
        "seconds": round(seconds, 1),
    }
    write_whole(folder / "test.json", json.dumps(results, indent=2, ensure_ascii=False).encode())


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    names = ("torch", "lightning", "torchmetrics", "sacrebleu", "sentencepiece", "hydra-core")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}


def revision() -> str | None:
    """The commit of the checkout that this file stands in, with + where it was changed; None outside one."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed.stdout.strip() else "")


def _draw_attention(translator: Translator, source: str, translation: str, folder: Path) -> None:
    """One picture for each of the three attentions: the last layer, the mean of its heads."""
    if not translation:
        return
    record, source_pieces, target_pieces = translator.attention(source, translation)
    for name, weights, queries, keys in (
        ("encoder", record.encoder, source_pieces, source_pieces),
        ("decoder", record.decoder, target_pieces, target_pieces),
        ("cross", record.cross, target_pieces, source_pieces),
    ):
        title = f"{name} attention, layer {len(weights)} of {len(weights)}, mean of its heads"
        draw_attention(weights[-1][0].mean(dim=0), queries, keys, title, folder / f"{name}.png")
