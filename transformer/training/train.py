"""A whole run: data, model, training, the best checkpoint, the test, and what stays in the run's folder."""

import time
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any

from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback

from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.gpu_dataset import gpu_datasets
from transformer.data.printable import say
from transformer.data.synthetic import SYNTHETIC, read_synthetic
from transformer.data.text_files import Pair
from transformer.data.training_split import build_training_split
from transformer.device import MachineSettings, configure_torch, find_hardware
from transformer.evaluation import Hypotheses, score
from transformer.evaluation.alignments import MAX_TRAINING_PAIRS, best_head
from transformer.evaluation.run_files import remove_run, write_config
from transformer.files import SEEN_SENTENCES, TRANSLATOR, check_writable, mark_cache
from transformer.inference import Translator, checkpoint
from transformer.inference.checkpoint import load_training
from transformer.inference.saved_translator import SavedTranslator
from transformer.model import ModelConfig, Transformer
from transformer.training import leakage
from transformer.training.callbacks.averaging import WeightAveraging
from transformer.training.callbacks.checkpointing import (
    AtomicCheckpoints,
    BestCheckpoint,
    StepCheckpoints,
    ValidationCheckpoint,
)
from transformer.training.callbacks.dropout_warmup import DropoutWarmup
from transformer.training.callbacks.out_of_memory import CurrentBatch, explain_out_of_memory
from transformer.training.callbacks.reporter import Curves, LearningRate, Reporter
from transformer.training.callbacks.resumed_optimizer import ResumedOptimizer
from transformer.training.callbacks.self_contained import SelfContainedCheckpoint
from transformer.training.callbacks.signals import SignalHandler
from transformer.training.callbacks.throughput import Throughput
from transformer.training.callbacks.train_progress import SeedEachStep
from transformer.training.callbacks.validation import FinalValidation, Patience, TimeLimit
from transformer.training.card import write_card
from transformer.training.checks import (
    check_enough_sentences,
    check_lengths,
    check_limits,
    check_size,
)
from transformer.training.config import RunSettings
from transformer.training.embeddings import initialize_embeddings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.loggers import build_logger, is_rank_zero, silence_lightning
from transformer.training.module import TranslationModule, end_compiling
from transformer.training.results import Result, draw_attentions, write_results
from transformer.training.resume import (
    check_resumption,
    explain_restoring,
    numerics,
    read_run,
    restore_numerics,
)
from transformer.training.summary import show_run
from transformer.training.trainer_arguments import TRAINER_DEFAULTS


def prepare_data(settings: RunSettings, pretrained: SavedTranslator | None) -> TranslationData:
    """The corpus with its tokenizers, or those of the pretrained model, and the augmented training split."""
    tokenizers = pretrained.tokenizers if pretrained else None
    data = TranslationData(settings.data, settings.tokenizer, settings.seed, tokenizers)
    data.training_split = build_training_split(data, settings.training.bpe_dropout)
    return data


def build_translator(
    settings: RunSettings, model_settings: dict[str, Any], data: TranslationData, pretrained: SavedTranslator | None
) -> Translator:
    """A model for the vocabularies of the tokenizers, with new weights or those of the pretrained model."""
    vocabularies = {"source_vocab_size": len(data.source_tokenizer), "target_vocab_size": len(data.target_tokenizer)}
    config = from_dict(ModelConfig, model_settings | vocabularies, "model")
    check_lengths(data, config)
    check_size(config)
    model = pretrained.build_for_finetuning(config) if pretrained else Transformer(config)
    tokenizers = data.source_tokenizer, data.target_tokenizer
    translator = Translator(model, tokenizers, settings.data.languages, settings.data.all_directions)
    if (penalty := settings.search.length_penalty) is not None:
        translator.length_penalty = penalty  # the run is tested with it, and whoever uses the model searches alike
    elif pretrained is not None:
        translator.length_penalty = pretrained.length_penalty
    return translator


def use_machine(
    machine: MachineSettings, accelerator: str, precision: str, data: TranslationData, saved: dict[str, Any] | None
) -> str:
    """Configures torch by the settings, with the numerics of the run that is resumed, and chooses how batches are
    formed. Returns a line that describes how the machine is used."""
    data.choose_bucketing(accelerator, precision)
    used = configure_torch(restore_numerics(machine, accelerator, saved), accelerator, bucketed=data.is_bucketed)
    return f"{used}, {find_hardware(accelerator).describe(precision)}"


def build_guided_alignment(settings: RunSettings, data: TranslationData, steps_done: int) -> GuidedAlignment | None:
    """What teaches cross-attention where to look; None where it is not asked for, or its steps are over."""
    asked = settings.training.guided_alignment
    if not asked.weight or steps_done >= asked.steps:
        return None
    vocabularies = len(data.source_tokenizer), len(data.target_tokenizer)
    return GuidedAlignment.learn([data.split(name) for name in data.names("train")], vocabularies, asked)


def build_module(
    settings: RunSettings, translator: Translator, data: TranslationData, steps_done: int
) -> TranslationModule:
    """The Lightning module, with the pairs that its translations are scored by."""
    scored = {name: corpus.languages for name, (corpus, split) in data.settings.all_splits.items() if split != "train"}
    pairs = {name: data.text_pairs(name) for name in scored}
    return TranslationModule(
        translator,
        settings.training,
        pairs,
        settings.validation_search,
        settings.search,
        settings.metrics,
        scored,
        build_guided_alignment(settings, data, steps_done),
    )


def _spread(total: int, count: int) -> list[int]:
    """Up to `count` indices spread evenly over `total`."""
    return sorted({(2 * i + 1) * total // (2 * count) for i in range(count)})


def validation_bleu(module: TranslationModule) -> float:
    """BLEU of the whole validation set with the module's weights as they are, the mean of all directions."""
    bleus = []
    for split in module.validation_splits:
        translator, (sources, references) = module.translators[split], zip(*module.pairs[split], strict=True)
        hypotheses = translator.translate(list(sources), module.validation_search)
        bleus.append(score(hypotheses, list(references), translator.target_language, ["bleu"])["bleu"])
    return sum(bleus) / len(bleus)


class RunCallbacks:
    """The callbacks of a run, and what of them is needed outside the Trainer; every checkpoint holds
    `checkpoint_settings`."""

    def __init__(
        self,
        settings: RunSettings,
        checkpoint_settings: dict[str, Any],
        folder: Path,
        module: TranslationModule,
    ) -> None:
        training, translator = settings.training, module.translator
        self.signals, self.throughput, self.current_batch = SignalHandler(), Throughput(), CurrentBatch()
        self.best = BestCheckpoint(folder)
        self.averaging: WeightAveraging | None = None
        if training.averaging.kind != "none":
            self.averaging = WeightAveraging(translator.model, training.averaging)
        self.final_validation = final_validation = FinalValidation()
        every = training.checkpoint_every_steps, training.checkpoint_every_minutes
        samples = []
        for place, name in enumerate(module.validation_splits):
            count = len(range(place, training.samples, len(module.validation_splits)))  # the directions take turns
            pairs = module.pairs[name]
            samples.append((module.translators[name], {i + 1: pairs[i] for i in _spread(len(pairs), count)}))
        self.in_order: list[Callback] = [
            # First what saves between two steps, before another callback has done its part of the next step.
            final_validation,
            StepCheckpoints(folder, checkpoint_settings, final_validation, self.signals, *every),
            SeedEachStep(settings.seed),
            *([DropoutWarmup(translator.model, warmup)] if (warmup := training.dropout_warmup_steps) else []),
            # Translates the samples before averaging puts the weights back: by those that were validated.
            Reporter(samples, settings.validation_search),
            *([self.averaging] if self.averaging else []),
            # Its digest is of the weights that averaging has put into the checkpoint.
            SelfContainedCheckpoint(translator),
            ResumedOptimizer(),
            self.current_batch,
            self.throughput,
            Patience(training.patience),
            Curves(folder),
            self.best,
            ValidationCheckpoint(folder, "last", monitor=None),
            *([LearningRate()] if settings.loggers else []),
        ]

    def best_weights(self, trainer: Trainer, module: TranslationModule) -> tuple[Path | None, float | None]:
        """The checkpoint to test, and its validation BLEU. None: test the weights of the last step, because there was
        no validation (trainer.limit_val_batches=0) or because they are better than the average."""
        if not Path(self.best.path).exists() or self.best.best_model_score is None:
            return None, None
        if (validated := self.final_validation.validated_step) < trainer.global_step and trainer.is_global_zero:
            say(
                f"steps after {validated:,} were not validated (trainer.limit_val_batches=0): the best weights until "
                "then are kept; to have the later ones validated, resume with trainer.limit_val_batches=1.0"
            )
        bleu = float(self.best.best_model_score)
        # 1.0 is all of the validation set, 1 a single batch.
        is_part = trainer.limit_val_batches != 1.0 or isinstance(trainer.limit_val_batches, int)
        if self.averaging is None or is_part:
            return Path(self.best.path), bleu
        # The average was validated, but not the weights of the last step. One process translates, and decides for all.
        last = trainer.strategy.broadcast(validation_bleu(module) if trainer.is_global_zero else 0.0)
        is_last_better = last > bleu + 1e-4  # Lightning has kept the other in 32 bits
        if trainer.is_global_zero:
            say(
                f"validation BLEU: {bleu:.2f} averaged, {last:.2f} with the last step's weights, "
                f"so the {'last' if is_last_better else 'averaged'} ones are kept"
            )
        return (None, last) if is_last_better else (Path(self.best.path), bleu)


def build_trainer(settings: RunSettings, arguments: dict[str, Any], folder: Path, callbacks: list[Callback]) -> Trainer:
    """Lightning's Trainer, with the arguments of `trainer=` above our defaults; its loggers are built later."""
    every = settings.training.validate_every * int(arguments.get("accumulate_grad_batches", 1))
    max_time = arguments.get("max_time")  # Lightning makes a timer of its own only where there is none
    return Trainer(
        **(TRAINER_DEFAULTS | {name: value for name, value in arguments.items() if value is not None}),
        val_check_interval=every,
        default_root_dir=folder,
        callbacks=[*callbacks, *([TimeLimit(max_time)] if max_time else [])],
        logger=False,
        plugins=[AtomicCheckpoints()],
        use_distributed_sampler=False,
    )


def record_training_sentences(
    settings: RunSettings, corpus: DataSettings, scored: dict[str, list[Pair]], folder: Path
) -> None:
    """Leaves the hashes of the training sentences of the `corpus`, whose splits are cut by now; says how many of
    the pairs that are `scored` are among them, and how many the weights to begin with were trained on."""
    trained = [one for one, split in corpus.all_splits.values() if split == "train"]
    pairs = chain.from_iterable(chain(one.read("train"), read_synthetic(one)) for one in trained)
    hashes = leakage.sentence_hashes(pairs)
    say(*leakage.overlap_notes(hashes, scored))
    before: leakage.Hashes | None = leakage.NO_SENTENCES
    if settings.init_from:
        say(*leakage.leakage_warnings(settings.init_from, scored))
        if settings.data.fold:
            say(*leakage.fold_warnings(settings.init_from, settings.data.fold, corpus))
        before = leakage.read_hashes(Path(settings.init_from))
    if before is None:
        # Nobody knows what the weights have seen. An earlier attempt may have left a file in this folder: it is untrue.
        (folder / SEEN_SENTENCES).unlink(missing_ok=True)
        return
    leakage.write_hashes(folder, leakage.smallest(hashes, before))


def sample_translations(hypotheses: Hypotheses, test: list[Pair], count: int) -> list[tuple[str, str, str]]:
    """Some sources of the test set with their references and translations."""
    indices, translations = hypotheses.indices("test"), hypotheses.texts("test")
    return [(*test[indices[i]], translations[i]) for i in _spread(len(indices), count)]


def save_translator(translator: Translator, data: TranslationData, validation: list[Pair], folder: Path) -> None:
    """Writes the one file that translates, which knows the head of cross-attention that aligns words best."""
    if translator.model.config.decoder.cross_attention is not None:
        pairs = list(islice(data.settings.read("train"), MAX_TRAINING_PAIRS))
        translator.alignment = best_head(translator, validation, pairs)
    translator.save(folder / TRANSLATOR)


def run(
    settings: RunSettings,
    model_settings: dict[str, Any],
    trainer_arguments: dict[str, Any],
    folder: Path,
    resume: Path | None,
    replace: bool = False,
) -> Result:
    """Trains, tests the best checkpoint and leaves a whole folder behind.

    The settings have passed `check_settings` and `checked_trainer`; `resume` continues from a checkpoint of the same
    folder. With `replace` the folder may hold an earlier run, as that of a repeated trial does: it is removed once the
    corpus is ready, as its model or scores would be taken for those of this run. Raises ValueError or OSError, before
    it trains, for what the corpus, the checkpoint or the folder does not allow, and Interrupted when a signal ends the
    run.
    """
    started = time.monotonic()
    silence_lightning()
    check_writable(folder)
    seed_everything(settings.seed, verbose=False)
    pretrained = checkpoint.load(resume or Path(settings.init_from)) if settings.init_from else None
    data = prepare_data(settings, pretrained)
    saved = read_run(resume)
    accelerator = str(trainer_arguments.get("accelerator") or "auto")
    precision = str(trainer_arguments.get("precision") or "32-true")
    machine = use_machine(settings.machine, accelerator, precision, data, saved)
    settings_dict = asdict(settings) | {"model": model_settings, "trainer": trainer_arguments}
    digests = {SYNTHETIC: "none"} | data.digests
    checkpoint_settings = settings_dict | {"digests": digests, "numerics": numerics(accelerator)}
    resume_point = check_resumption(saved, checkpoint_settings, print_changes=is_rank_zero())

    translator = build_translator(settings, model_settings, data, pretrained)
    if settings.training.initial_embeddings == "cooccurrence" and pretrained is None and resume is None:
        initialize_embeddings(translator.model, [data.split(name) for name in data.names("train")], settings.seed)
    module = build_module(settings, translator, data, resume_point.steps)
    callbacks = RunCallbacks(settings, checkpoint_settings, folder, module)
    trainer = build_trainer(settings, trainer_arguments, folder, callbacks.in_order)
    processes = trainer.num_devices * trainer.num_nodes
    check_enough_sentences(data, processes)
    check_limits(data, trainer_arguments, processes)
    data.datasets = gpu_datasets(data.examples("train"), trainer.strategy.root_device, data.buckets("train"))
    if replace:
        remove_run(folder)
    # Only now, as they cut the log back to the checkpoint.
    rows, steps = resume_point.rows, resume_point.steps
    trainer.loggers = [build_logger(name, folder, rows, steps) for name in settings.loggers]
    if trainer.is_global_zero:
        # SLURM and torchrun start the processes themselves, and may give each cores of its own.
        share_cores = trainer.strategy.root_device.type == "cpu" and trainer.strategy.launcher is not None
        show_run(data, translator, machine, trainer.num_devices if share_cores else 1, settings.init_from)
        write_config(folder, settings_dict)
        mark_cache(data.cache)
        if saved is None:
            record_training_sentences(settings, data.settings, module.pairs, folder)
        else:
            before = saved["settings"]["digests"]
            new = {name: module.pairs[name] for name in module.test_splits if data.digests[name] != before.get(name)}
            say(*(leakage.leakage_warnings(str(folder), new) if new else []))

    explained = explain_out_of_memory(callbacks.current_batch, settings.data.batch_tokens)
    with callbacks.signals, explain_restoring(resume, lambda: trainer.global_step > resume_point.steps), explained:
        if processes > 1:
            callbacks.signals.end_at_once()
        if trainer.num_nodes > 1 and trainer.is_global_zero:
            say(f"waiting for the processes of all {trainer.num_nodes} nodes")
        trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
        callbacks.signals.install(trainer)  # Lightning has put back what there was before
        end_compiling(translator.model)
        module.to(trainer.strategy.root_device)  # fit leaves the model on the CPU
        cost = callbacks.throughput.measured(trainer)
        best, best_bleu = callbacks.best_weights(trainer, module)
        if best is not None:
            module.load_state_dict(load_training(best)["state_dict"])
        if trainer.is_global_zero:  # before the test, which can take minutes and be stopped
            save_translator(translator, data, module.pairs["validation"], folder)
        if settings.test:
            trainer.test(module, datamodule=data, verbose=False)

    if not settings.test:
        return Result(best_bleu, {}, cost, [])
    hypotheses = module.test_hypotheses
    outputs = {split: hypotheses.texts(split) for split in hypotheses.by_split}
    samples = sample_translations(hypotheses, module.pairs["test"], 3)
    if trainer.is_global_zero:
        write_results(folder, module.test_scores, outputs, data.digests, time.monotonic() - started, cost)
        write_card(folder, translator, data, checkpoint_settings, machine)
        draw_attentions(translator, samples, folder / "attention")
    return Result(best_bleu, module.test_scores, cost, samples)
