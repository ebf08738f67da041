"""A whole run: data, model, training, the best checkpoint, the test, and what stays in the run's folder."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint

from transformer.config import from_dict
from transformer.data.augmentation import augmented
from transformer.data.datamodule import TranslationData
from transformer.data.gpu_dataset import gpu_datasets
from transformer.device import configure_torch
from transformer.inference import Translator, checkpoint
from transformer.model import ModelConfig, Transformer
from transformer.training.callbacks.averaging import WeightAverage
from transformer.training.callbacks.checkpoints import AtomicCheckpoints, BestCheckpoint, Checkpoints
from transformer.training.callbacks.nonfinite import OutOfMemoryAdvice
from transformer.training.callbacks.progress import Curves, Reporter
from transformer.training.callbacks.progress_state import SeededSteps
from transformer.training.callbacks.resume import History, check_resumption, numerics, read_run, restore_numerics
from transformer.training.callbacks.signals import SignalHandler
from transformer.training.callbacks.standalone import SelfContainedCheckpoint
from transformer.training.callbacks.throughput import Throughput
from transformer.training.callbacks.validation import FinalValidation, Patience
from transformer.training.card import write_card
from transformer.training.config import RunSettings
from transformer.training.loggers import build_logger, first_process, quiet
from transformer.training.module import TranslationModule
from transformer.training.results import Result, draw_attentions, write_results
from transformer.training.summary import show_run
from transformer.training.validate import validate_lengths, validate_run


def run(
    settings: RunSettings,
    model: dict[str, Any],
    trainer: dict[str, Any],
    folder: Path,
    resume: Path | None,
    begins: Callable[[], None],
) -> Result:
    """Trains, tests the best checkpoint and leaves a whole folder behind.

    `resume` continues from a checkpoint of the same folder. Raises ValueError or OSError for settings that cannot be,
    before it calls `begins` and trains, and Interrupted when a signal ends the run.
    """
    started = time.monotonic()
    quiet()
    validate_run(folder, asdict(settings) | {"model": model, "trainer": trainer})
    seed_everything(settings.seed, verbose=False)
    begun = checkpoint.load(resume or Path(settings.init_from)) if settings.init_from else None
    data = TranslationData(settings.data, settings.tokenizer, settings.seed, begun.tokenizers if begun else None)
    data.splits["train"] = augmented(data, settings.training.bpe_dropout)
    saved = read_run(resume)
    machine = configure_torch(restore_numerics(settings.machine, saved), trainer.get("accelerator", "auto"))
    chosen = asdict(settings) | {"model": model, "trainer": trainer, "digests": data.digests, "numerics": numerics()}
    history = check_resumption(saved, chosen, speaks=first_process())
    vocabularies = {"source_vocab_size": len(data.source_tokenizer), "target_vocab_size": len(data.target_tokenizer)}
    config = from_dict(ModelConfig, model | vocabularies, "model")
    validate_lengths(data, config)
    network = begun.build_for_finetuning(config) if begun else Transformer(config)
    translator = Translator(network, (data.source_tokenizer, data.target_tokenizer), settings.data.languages)
    texts = {name: data.texts(name) for name in settings.data.splits if name != "train"}
    searches = settings.validation_search, settings.search
    module = TranslationModule(translator, settings.training, texts, *searches, settings.metrics)
    cost = Throughput()
    validation, signals, memory = FinalValidation(), SignalHandler(), OutOfMemoryAdvice(settings.data.batch_tokens)
    every = settings.training.checkpoint_every_steps, settings.training.checkpoint_every_minutes
    saving = Checkpoints(folder, chosen, validation, signals, *every)
    averaging = settings.training.averaging
    average = [] if averaging.kind == "none" else [WeightAverage(translator.model, averaging)]
    shown = [texts["validation"][i] for i in _spread(len(texts["validation"]), settings.training.samples)]
    # The samples are translated before an average leaves its place again: by the weights that were validated.
    reporting = [Reporter(translator, shown, settings.validation_search), *average]
    # First what saves between two steps, before any other does its part of the next, and what that relies on.
    safety = [
        validation,
        saving,
        SeededSteps(settings.seed),
        *reporting,
        SelfContainedCheckpoint(translator),
        memory,
        cost,
    ]
    lightning = _trainer(settings, trainer, folder, history, safety)
    data.datasets = gpu_datasets(data.split("train"), lightning.strategy.root_device)
    if lightning.is_global_zero:
        show_run(data, translator, machine, settings.init_from)
    best = folder / "checkpoints" / "best.ckpt"
    begins()
    with signals, memory.named():
        lightning.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
        measured = cost.measured(lightning)
        # Without any validation (trainer.limit_val_batches=0) the last weights are the best there are.
        path = best if best.exists() and not any(one.is_beaten(lightning, module) for one in average) else None
        lightning.test(module, datamodule=data, ckpt_path=path, weights_only=True, verbose=False)
    hypotheses = module.test_hypotheses
    outputs, tested = {split: hypotheses.texts(split) for split in hypotheses.by_split}, hypotheses.numbers("test")
    samples = [(*texts["test"][tested[i]], outputs["test"][i]) for i in _spread(len(tested), 3)]
    if lightning.is_global_zero:
        translator.save(folder / "translator.safetensors")
        write_results(folder, module.test_scores, outputs, data.digests, time.monotonic() - started, measured)
        write_card(folder, translator, data, chosen, machine)
        source, _, translation = min(samples, key=lambda sample: len(sample[0]))
        draw_attentions(translator, source, translation, folder / "attention")
    return Result(module.test_scores, measured, samples)


def _trainer(
    settings: RunSettings, arguments: dict[str, Any], folder: Path, history: History, first: list[Callback]
) -> Trainer:
    callbacks: list[Callback] = [
        *first,
        Patience(settings.training.patience),
        Curves(folder),
        BestCheckpoint(folder),
        ModelCheckpoint(folder / "checkpoints", "last", enable_version_counter=False),
        *([LearningRateMonitor("step")] if settings.loggers else []),
    ]
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
        logger=[build_logger(name, folder, history.rows, history.steps) for name in settings.loggers],
        plugins=[AtomicCheckpoints()],
        use_distributed_sampler=False,
    )


def _spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` places spread over `count`."""
    return sorted({(2 * i + 1) * count // (2 * wanted) for i in range(wanted)})
