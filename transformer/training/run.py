"""A whole run: data, model, training, the best checkpoint, the test, and what stays in the run's folder (C2)."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint

from transformer.data.corpus import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import TokenizerSettings
from transformer.evaluation import Scores
from transformer.inference import Translator
from transformer.inference.search import SearchSettings
from transformer.model import ModelConfig, Transformer
from transformer.reporting.cost import Cost
from transformer.reporting.loggers import LoggerName, build_logger, quiet
from transformer.reporting.progress import Curves, Reporter
from transformer.reporting.results import draw_attentions, write_results
from transformer.reporting.tables import show_run
from transformer.settings import from_plain
from transformer.storage.whole import check_writable
from transformer.training.callbacks import AtomicCheckpoints, FinalValidation
from transformer.training.module import TrainingSettings, TranslationModule


@dataclass(frozen=True)
class RunSettings:
    """The typed settings of a run: all but the model's, whose vocabularies the tokenisers decide, and the Trainer's."""

    seed: Annotated[int, ">= 0", "<= 4294967295"]
    loggers: list[LoggerName]
    data: DataSettings
    tokenizer: TokenizerSettings
    training: TrainingSettings
    validation_search: SearchSettings
    search: SearchSettings


@dataclass
class Result:
    """How a run ended: scores a split, what it cost, and three sample translations of the test set."""

    scores: dict[str, Scores]
    cost: dict[str, float]
    samples: list[tuple[str, str, str]]


def run(
    settings: RunSettings, model: dict[str, Any], trainer: dict[str, Any], folder: Path, resume: Path | None
) -> Result:
    """Trains, tests the best checkpoint and leaves a whole folder behind.

    `resume` continues from a checkpoint of the same folder. Raises ValueError or OSError, before any work, for settings
    that cannot be.
    """
    started = time.monotonic()
    check_writable(folder)
    quiet()
    seed_everything(settings.seed, verbose=False)
    data = TranslationData(settings.data, settings.tokenizer, settings.seed)
    vocabularies = {"source_vocabulary": len(data.source_tokenizer), "target_vocabulary": len(data.target_tokenizer)}
    config = from_plain(ModelConfig, model | vocabularies, "model")
    _check_lengths(data, config)
    tokenizers = (data.source_tokenizer, data.target_tokenizer)
    translator = Translator(Transformer(config), tokenizers, settings.data.languages)
    texts = {name: data.texts(name) for name in settings.data.splits if name != "train"}
    module = TranslationModule(translator, settings.training, texts, settings.validation_search, settings.search)
    cost = Cost()
    lightning = _trainer(settings, trainer, folder, module, resume, cost)
    if lightning.is_global_zero:
        show_run(data, translator)
    lightning.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
    measured = cost.measured(lightning)
    best = folder / "checkpoints" / "best.ckpt"
    # Without any validation (trainer.limit_val_batches=0) the last weights are the best there are.
    lightning.test(module, datamodule=data, ckpt_path=best if best.exists() else None, weights_only=True, verbose=False)
    outputs = {split: [found[i] for i in sorted(found)] for split, found in module.test_outputs.items()}
    tested = sorted(module.test_outputs["test"])
    shown = [tested[i] for i in _spread(len(tested), 3)]
    samples = [(*texts["test"][i], module.test_outputs["test"][i]) for i in shown]
    if lightning.is_global_zero:
        translator.save(folder / "translator.safetensors")
        write_results(folder, module.test_scores, outputs, data.digests, time.monotonic() - started, measured)
        source, _, translation = min(samples, key=lambda sample: len(sample[0]))
        draw_attentions(translator, source, translation, folder / "attention")
    return Result(module.test_scores, measured, samples)


def _trainer(
    settings: RunSettings,
    arguments: dict[str, Any],
    folder: Path,
    module: TranslationModule,
    resume: Path | None,
    cost: Cost,
) -> Trainer:
    pairs = module.texts["validation"]
    samples = [pairs[i] for i in _spread(len(pairs), settings.training.samples)]
    callbacks: list[Callback] = [
        cost,
        # What the others rely on: a validation at the very end.
        FinalValidation(),
        EarlyStopping("validation/bleu", mode="max", patience=settings.training.patience),
        Curves(folder),
        Reporter(module.translator, samples, settings.validation_search),
        ModelCheckpoint(folder / "checkpoints", "best", "validation/bleu", mode="max", enable_version_counter=False),
        ModelCheckpoint(folder / "checkpoints", "last", enable_version_counter=False),
    ]
    if settings.loggers:
        callbacks.append(LearningRateMonitor("step"))
    defaults = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "check_val_every_n_epoch": None,
        "val_check_interval": settings.training.validate_every * int(arguments.get("accumulate_grad_batches", 1)),
    }
    return Trainer(
        **(defaults | arguments),
        default_root_dir=folder,
        callbacks=callbacks,
        logger=[build_logger(name, folder, resume) for name in settings.loggers],
        plugins=[AtomicCheckpoints()],
        use_distributed_sampler=False,
    )


def _check_lengths(data: TranslationData, config: ModelConfig) -> None:
    """Raises ValueError when a sentence that is kept is longer than the model's positions."""
    for name in data.settings.splits:
        longest = data.split(name).longest + 1
        if longest > config.max_length:
            raise ValueError(
                f"model.max_length={config.max_length} is less than the longest sentence of {name} needs ({longest} "
                f"tokens with its end): raise it to {longest}, or lower data.max_length to {config.max_length - 1}"
            )


def _spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` places spread over `count`."""
    return sorted({(2 * i + 1) * count // (2 * wanted) for i in range(wanted)})
