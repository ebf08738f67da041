"""A whole run: data, model, training, the best checkpoint, the test, and the files in the run's folder."""

import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import Fabric

from transformer.config import from_dict, with_values
from transformer.data.datamodule import TranslationData
from transformer.data.encoded import MAX_COUNTED
from transformer.data.gpu_dataset import gpu_datasets
from transformer.data.leakage import overlap_notes
from transformer.data.synthetic import SYNTHETIC, read_synthetic
from transformer.data.text_files import Pair
from transformer.data.training_split import build_training_split
from transformer.device import configure_torch, device_kind, find_hardware
from transformer.evaluation.alignment_error import MAX_TRAINING_PAIRS, best_head
from transformer.evaluation.evaluate import Evaluation, cut_note, evaluate
from transformer.files import mark_cache
from transformer.inference import model_file
from transformer.inference.model_file import load_training
from transformer.inference.parts import is_letterless
from transformer.inference.saved_translator import SavedTranslator
from transformer.inference.settings import Defaults
from transformer.inference.translator import Translator
from transformer.machine import MachineSettings
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer
from transformer.printing import say
from transformer.processes import rank
from transformer.run import Run
from transformer.signals import SignalHandler
from transformer.training.card import write_card
from transformer.training.checkpoints import read_run
from transformer.training.checks import (
    check_enough_sentences,
    check_lengths,
    check_limits,
    check_resumption,
    check_size,
    numerics,
    restore_numerics,
)
from transformer.training.config import LOGGERS, RunSettings
from transformer.training.embeddings import initialize_embeddings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.loop import Training
from transformer.training.module import TranslationModule, end_compiling
from transformer.training.out_of_memory import explain_out_of_memory
from transformer.training.pace import fitting_steps, measure_pace
from transformer.training.reporter import spread
from transformer.training.results import Result, write_results
from transformer.training.sizing import as_typed
from transformer.training.summary import show_run

Hook = Callable[[Training], None]


def prepare_data(settings: RunSettings, pretrained: SavedTranslator | None) -> TranslationData:
    """The corpus with its tokenizers, or those of the pretrained model, and the augmented training split."""
    tokenizers = pretrained.tokenizers if pretrained else None
    data = TranslationData(settings.data, settings.tokenizer, settings.seed, tokenizers)
    data.training_split = build_training_split(data, settings.training.bpe_dropout)
    return data


def needed_length_ratio(data: TranslationData, extra: int) -> float:
    """How many target tokens for each source token a search must allow beyond `extra`. It is the ratio that 99.9 % of
    the training pairs need (the others may be wrong pairs), and a quarter more."""
    lengths = [data.split(name).lengths(0) for name in data.names("train")]
    source, target = (np.concatenate(side) for side in zip(*lengths, strict=True))
    needed = np.quantile((target.astype(float) - extra) / source, 0.999)
    return math.ceil(max(0.0, 12.5 * needed)) / 10


def keep_letterless(pairs: Iterable[Pair]) -> bool:
    """Whether most sources without a letter are the same in the target, or there are no such sources."""
    letterless = [source == target for source, target in pairs if is_letterless(source)]
    return 2 * sum(letterless) >= len(letterless)


def all_pairs(data: TranslationData) -> Iterator[Pair]:
    """The training pairs of all directions."""
    for corpus, split in data.all_splits.values():
        if split == "train":
            yield from corpus.read(split)


def build_translator(
    settings: RunSettings, model_settings: dict[str, Any], data: TranslationData, pretrained: SavedTranslator | None
) -> Translator:
    """A translator with the tokenizers of `data`, and new weights or those of the pretrained model."""
    vocabularies = {"source_vocab_size": len(data.source_tokenizer), "target_vocab_size": len(data.target_tokenizer)}
    config = from_dict(ModelConfig, model_settings | vocabularies, "model")
    check_lengths(data, config)
    check_size(config)
    model = pretrained.build_for_finetuning(config) if pretrained else Transformer(config)
    tokenizers = data.source_tokenizer, data.target_tokenizer
    translator = Translator(model, tokenizers, settings.data.languages, settings.data.all_directions)
    known, typed = pretrained.defaults if pretrained else Defaults(), settings.search
    needed = max(known.length_ratio, needed_length_ratio(data, typed.length_extra))
    # The saved model has the typed settings as defaults, so that it later searches as in the run's test.
    translator.defaults = Defaults(
        known.length_penalty if typed.length_penalty is None else typed.length_penalty,
        needed if typed.length_ratio is None else typed.length_ratio,
        keep_letterless(islice(all_pairs(data), MAX_COUNTED)),
    )
    return translator


def use_machine(
    machine: MachineSettings, accelerator: str, precision: str, data: TranslationData, saved: dict[str, Any] | None
) -> str:
    """Configures torch by the settings, with the numerics of the resumed run if there is one, and chooses how batches
    are formed. Returns a line that describes how the machine is used."""
    data.choose_bucketing(accelerator, precision)
    used = configure_torch(restore_numerics(machine, accelerator, saved), accelerator, bucketed=data.is_bucketed)
    return f"{used}, {find_hardware(accelerator).describe(precision)}"


def build_guided_alignment(settings: RunSettings, data: TranslationData, steps_done: int) -> GuidedAlignment | None:
    """The loss that teaches cross-attention where to look; None if it is off or its steps are over."""
    asked = settings.training.guided_alignment
    if not asked.weight or steps_done >= asked.steps:
        return None
    splits = [data.split(name) for name in data.names("train")]
    return GuidedAlignment.learn(splits, len(data.target_tokenizer), asked)


def silence_lightning() -> None:
    """Silences Lightning's tips, and its warnings about choices that this project makes on purpose."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", module="torch.utils.data")


def build_fabric(settings: RunSettings, folder: Path, saved: dict[str, Any] | None) -> Fabric:
    """Lightning Fabric: device, precision, processes and loggers. A resumed run cuts its log back to the checkpoint."""
    trainer = settings.trainer
    torch.use_deterministic_algorithms(trainer.deterministic)
    if trainer.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it
    rows, steps = (saved["progress"]["log_rows"], saved["progress"]["step"]) if saved else (0, 0)
    return Fabric(
        accelerator=device_kind(trainer.accelerator),
        devices=trainer.devices,
        num_nodes=trainer.num_nodes,
        strategy=trainer.strategy,
        precision=trainer.precision,  # type: ignore[arg-type]
        loggers=[LOGGERS[name](folder, rows, steps) for name in settings.loggers],
    )


def launch(fabric: Fabric, settings: RunSettings, signals: SignalHandler) -> None:
    """Starts the other processes of the run, if it has any, and waits until all have found each other."""
    if settings.trainer.num_nodes > 1 and rank() == 0:
        say(f"waiting for the processes of all {settings.trainer.num_nodes} nodes")
    with signals.at_once() if settings.trainer.strategy == "ddp" else nullcontext():
        fabric.launch()


def choose_weights(training: Training) -> float | None:
    """Gives the model the weights to be tested, and returns their validation score: those of best.ckpt, or those of the
    last step if they are better than the average. None if nothing was validated."""
    best, limit, says = training.progress.best_score, training.settings.trainer.limit_val_batches, rank() == 0
    if best is None or not Run(training.folder).best.exists():
        return None
    if not training.has_validation and says:
        say("the weights of the best validation so far are kept (trainer.limit_val_batches=0 validates no others)")
    if training.average.is_used and limit == 1.0 and isinstance(limit, float):
        last = training.chosen_score({name: training.evaluate_split(name) for name in training.validation_pairs})
        is_better = last > best
        if says:
            kept = "last" if is_better else "averaged"
            scores = f"{abs(best):.2f} averaged, {abs(last):.2f} with the last step's weights"
            say(f"validation {training.choose_by}: {scores}: the {kept} are kept")
        if is_better:
            return last
    training.module.load_state_dict(load_training(Run(training.folder).best)["state_dict"])
    return best


def evaluate_tests(training: Training) -> dict[str, Evaluation]:
    """Translates and scores all tests."""
    settings, data = training.settings, training.data
    pairs = {name: data.text_pairs(name, settings.trainer.limit_test_batches) for name in data.test_names}
    training.reporter.testing({name: len(of_split) for name, of_split in pairs.items()})

    def progressed(done: int, total: int) -> None:
        training.reporter.progressed("tested", done, total)

    with explain_out_of_memory("the test", "search.beam"):
        return {
            name: evaluate(
                training.translators[name], pairs[name], settings.search, settings.metrics, on_progress=progressed
            )
            for name in data.test_names
        }


def samples_of(evaluation: Evaluation, pairs: list[Pair], count: int = 3) -> list[tuple[str, str, str]]:
    """Some sources of a test set with their references and translations."""
    return [(*pairs[index], evaluation.hypotheses[index]) for index in spread(len(pairs), count)]


def save_translator(translator: Translator, data: TranslationData, validation: list[Pair], path: Path) -> None:
    """Writes the translator's file; then again, with the head of cross-attention that aligns words best."""
    translator.save(path)
    if translator.model.config.decoder.cross_attention is not None:
        pairs = list(islice(data.settings.read("train"), MAX_TRAINING_PAIRS))
        translator.alignment = best_head(translator, validation, pairs)
        translator.save(path)


def leakage_notes(data: TranslationData) -> list[str]:
    """Lines that say how many sentences of validation and tests are also in the training pairs."""
    trained = [corpus for corpus, split in data.settings.all_splits.values() if split == "train"]
    train = chain.from_iterable(chain(corpus.read("train"), read_synthetic(corpus)) for corpus in trained)
    scored = {name: data.text_pairs(name) for name in [*data.names("validation"), *data.test_names]}
    return overlap_notes(train, scored)


def run(
    settings: RunSettings,
    model_settings: dict[str, Any],
    folder: Path,
    resume: Path | None = None,
    replace: bool = False,
    chosen: dict[str, Any] | None = None,
    on_step: Sequence[Hook] = (),
    on_validation: Sequence[Hook] = (),
    at_end: Sequence[Callable[[Translator, Result, Path], None]] = (),
) -> Result:
    """Trains, tests the best checkpoint and writes all files of the run into its folder.

    The settings have passed `check_settings` and `check_trainer`; `resume` is a checkpoint of the same folder to
    continue from. With `replace` the folder may hold an earlier run (of a repeated trial): its files are removed once
    the corpus is ready, so that nobody takes them for those of this run. `chosen` are the settings that were not typed
    (`sizing.choose`): they are printed after the steps are reduced to fit into trainer.max_time. `on_step` and
    `on_validation` are called with the `Training` after each step or validation, and `at_end` with translator, result
    and folder at the end, when everything is saved.
    Raises ValueError or OSError, before training, if the corpus, the checkpoint or the folder does not allow the run,
    and Interrupted if a signal ends it.
    """
    started = time.monotonic()
    silence_lightning()
    place = Run.new(folder)
    torch.manual_seed(settings.seed)
    pretrained = model_file.load(resume or Path(settings.init_from)) if settings.init_from else None
    data = prepare_data(settings, pretrained)
    saved = read_run(resume) if resume else None
    trainer = settings.trainer
    machine = use_machine(settings.machine, trainer.accelerator, trainer.precision, data, saved)
    digests = {SYNTHETIC: "none"} | data.digests
    saved_settings = asdict(settings) | {"model": model_settings}
    saved_settings |= {"digests": digests, "numerics": numerics(trainer.accelerator)}
    changes = check_resumption(saved, saved_settings) if saved else []
    steps_done = saved["progress"]["step"] if saved else 0

    translator = build_translator(settings, model_settings, data, pretrained)
    if settings.training.initial_embeddings == "cooccurrence" and pretrained is None and resume is None:
        initialize_embeddings(translator.model, [data.split(name) for name in data.names("train")], settings.seed)
    guide = build_guided_alignment(settings, data, steps_done)
    check_enough_sentences(data, trainer.devices * trainer.num_nodes)
    check_limits(data, trainer, trainer.devices * trainer.num_nodes)
    if replace:
        place.clear()
    fabric = build_fabric(settings, folder, saved)
    if rank() == 0:
        # If SLURM or torchrun start the processes, each may have cores of its own.
        shares_cores = fabric.device.type == "cpu" and fabric.strategy.launcher is not None
        show_run(data, translator, settings.search, machine, trainer.devices if shares_cores else 1, settings.init_from)
        say(*(f"changed: {line}" for line in changes), *([] if saved else leakage_notes(data)))
        place.write_settings(asdict(settings) | {"model": model_settings})
        mark_cache(data.cache)

    with SignalHandler() as signals:
        launch(fabric, settings, signals)
        data.datasets = gpu_datasets(data.examples("train"), fabric.device, data.buckets("train"))
        chosen = chosen or {}
        if trainer.max_seconds and (saved is None or math.isinf(trainer.steps)):  # a resumed run has its steps
            seconds = trainer.max_seconds - (saved["seconds"] if saved else 0.0)
            pace = measure_pace(fabric, translator, data, settings, folder, signals, guide)
            fitted = fabric.broadcast(fitting_steps(settings, chosen, pace, seconds, steps_done))
            settings, chosen = with_values(settings, fitted), chosen | fitted
            saved_settings |= asdict(settings)
            if rank() == 0:
                say(f"trainer.max_time={trainer.max_time}: {pace}")
                place.write_settings(asdict(settings) | {"model": model_settings})
        if chosen and rank() == 0:
            say(f"chosen: {as_typed(chosen)}")
        module = TranslationModule(translator, settings.training)
        hooks = {"on_step": on_step, "on_validation": on_validation}
        training = Training(fabric, module, data, settings, saved_settings, folder, signals, guide, **hooks)
        if saved and resume:
            training.resume(saved, resume)
        training.fit()
        end_compiling(translator.model)
        cost = training.throughput.measured(fabric.device)
        validation = choose_weights(training)
        if fabric.is_global_zero:  # before the test, which may take minutes and may be stopped
            save_translator(translator, data, data.text_pairs("validation"), place.translator)
        evaluations = evaluate_tests(training) if settings.test else {}

    if not evaluations:
        return Result(validation, training.choose_by, {}, cost, [], [])
    samples = samples_of(evaluations["test"], data.text_pairs("test", trainer.limit_test_batches))
    notes = [f"{name}: {note}" for name, one in evaluations.items() if (note := cut_note(one))]
    scores = {name: one.scores for name, one in evaluations.items()}
    result = Result(validation, training.choose_by, scores, cost, samples, notes)
    if fabric.is_global_zero:
        write_results(place, evaluations, data.digests, time.monotonic() - started, cost)
        write_card(place, translator, data, saved_settings, machine)
        for hook in at_end:
            hook(translator, result, folder)
    return result
