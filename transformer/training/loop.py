"""The training loop. Begin with `Training.fit`: its steps, its validations, and how it ends.

All randomness of a batch depends only on its place (seed, process, epoch, batch). So a checkpoint holds no state of a
random generator, and a run that continues from one ends with the same weights, bit for bit, as one that never stopped.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import Fabric
from torch import Tensor

from transformer.data.batching import Batch, limited
from transformer.data.datamodule import TranslationData
from transformer.data.directions import direction_name
from transformer.data.text_files import Pair
from transformer.data.tokenizer import PAD
from transformer.evaluation.evaluate import Evaluation, evaluate
from transformer.evaluation.metrics import score
from transformer.inference import model_file
from transformer.model.attention import AttentionRecord
from transformer.run import BEST_CHECKPOINT, LAST_CHECKPOINT, Run
from transformer.signals import Interrupted, SignalHandler
from transformer.training.agreement import Agreement
from transformer.training.averaging import WeightAverage
from transformer.training.checkpoints import Checkpoints, TrainProgress
from transformer.training.config import RunSettings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.module import TranslationModule
from transformer.training.nonfinite import NonFiniteError, Update
from transformer.training.optim import can_be_fused, learning_rate_factor
from transformer.training.out_of_memory import explain_out_of_memory
from transformer.training.regularization import DropoutWarmup
from transformer.training.reporter import Reporter, Sample, spread
from transformer.training.throughput import Throughput


def seed_batch(seed: int, rank: int, epoch: int, batch: int, device: torch.device) -> None:
    """Seeds torch for a training batch by its place."""
    number = int(np.random.SeedSequence([seed, rank, epoch, batch]).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(number)  # ten times as fast as torch.manual_seed, which looks for GPUs
    if device.type != "cpu":
        torch.manual_seed(number)


def mean(evaluations: dict[str, Evaluation], measure: str) -> float:
    """A score, or the loss, of a validation: all directions count the same, however many pairs they have."""
    values = [one.scores[measure] if measure != "loss" else float(one.loss or 0) for one in evaluations.values()]
    return sum(values) / len(values)


def can_be_scored(pairs: Sequence[Pair], language: str) -> bool:
    """Whether perfect translations would get a BLEU above 0: not if no reference has four words."""
    references = [reference for _, reference in pairs]
    return not references or score(references, references, language, ["bleu"])["bleu"] > 1


FIRST_SNAPSHOT = 50  # steps: a model has begun to learn which words are frequent


def snapshot_steps(count: int, total_steps: float) -> set[int]:
    """The steps after which a run keeps its model: 0, then FIRST_SNAPSHOT, or an earlier step of a short run, and from
    there to the last step each the same factor later, at least 2. At its end a run saves its model anyway."""
    if not count:
        return set()
    first = min(FIRST_SNAPSHOT, total_steps / 2 ** (count - 1))
    return {0, *(round(first * (total_steps / first) ** (later / (count - 1))) for later in range(count - 1))}


class Training:
    """The state of a run while it trains, and the training loop."""

    def __init__(
        self,
        fabric: Fabric,
        module: TranslationModule,
        data: TranslationData,
        settings: RunSettings,
        saved_settings: dict[str, Any],
        folder: Path,
        signals: SignalHandler,
        guide: GuidedAlignment | None = None,
        on_step: Sequence[Callable[["Training"], None]] = (),
        on_validation: Sequence[Callable[["Training"], None]] = (),
    ) -> None:
        """`fabric` has the device, the precision, the processes and the loggers. `saved_settings` go into every
        checkpoint in `folder`. The functions of `on_step` and `on_validation` are called with this object after each
        step or validation."""
        trainer, chosen = settings.trainer, settings.training
        self.fabric, self.module, self.data, self.settings, self.folder = fabric, module, data, settings, folder
        self.signals, self.guide, self.on_step, self.on_validation = signals, guide, on_step, on_validation
        self.progress, self.seconds_before = TrainProgress(), 0.0  # changed by `resume`

        self.loader = data.loader("train", fabric.global_rank, fabric.world_size, trainer.accumulate_grad_batches)
        self.batches_per_epoch = limited(len(self.loader), trainer.limit_train_batches)  # of each process
        # Fabric's module sums gradients over processes; it calls `module`, which has the Transformer as `model`.
        optimizer = module.build_optimizer(fused=can_be_fused(trainer.precision))
        self.fabric_module, self.optimizer = fabric.setup(module, optimizer)
        self.weights = list(module.model.parameters())
        self.average = WeightAverage(self.weights, chosen.averaging)
        self.dropout_warmup = DropoutWarmup(module.model, chosen.dropout_warmup_steps)
        self.throughput = Throughput(bool(chosen.compile))
        self.agreement = Agreement(fabric, signals, trainer, chosen.checkpoint_every_minutes, data.examples("train"))
        # With seed and corpus, these decide which batches a process gets.
        batches = fabric.world_size, trainer.accumulate_grad_batches, data.settings.batch_tokens, self.batches_per_epoch
        sharding = [*batches, data.is_bucketed, chosen.bpe_dropout]
        self.checkpoints = Checkpoints(folder, fabric, module, self.optimizer, self.average, sharding, saved_settings)
        self.plan_steps()

        limit = trainer.limit_val_batches
        self.validation_pairs = {name: data.text_pairs(name, limit) for name in data.names("validation")}
        # The translator of each split: the same model in the split's direction.
        self.translators = {}
        for name in [*self.validation_pairs, *data.test_names]:
            translator = copy(module.translator.in_direction(*data.all_splits[name][0].languages))
            translator.lines_of = name
            translator.greedy_scores = translator.warns_of_sources = translator.warns_of_lines = False
            self.translators[name] = translator
        self.reporter = Reporter(fabric.is_global_zero, settings, self.throughput)
        self.choose_by = chosen.choose_by
        if chosen.choose_by == "auto":
            languages = {name: translator.target_language for name, translator in self.translators.items()}
            scored = [can_be_scored(pairs, languages[name]) for name, pairs in self.validation_pairs.items()]
            self.choose_by = "bleu" if all(scored) else "chrf"
            if not all(scored):
                self.reporter.note("no validation reference has four words, so BLEU is 0: chrF chooses the checkpoint")
        self.validation_metrics = ["bleu", "chrf"] if self.choose_by == "chrf" else ["bleu"]

    def resume(self, checkpoint: dict[str, Any], path: Path) -> None:
        """Continues from the checkpoint that `read_run` has read from the file `path`."""
        self.progress, self.seconds_before = self.checkpoints.load(checkpoint, path)
        self.plan_steps()

    def plan_steps(self) -> None:
        """Computes the schedule, and how many updates the run has unless its time or its patience ends it earlier."""
        trainer, chosen, progress = self.settings.trainer, self.settings.training, self.progress
        self.total_steps: float = trainer.steps
        if trainer.max_epochs >= 0:
            batches_left = (trainer.max_epochs - progress.epoch) * self.batches_per_epoch - progress.batch
            by_epochs = progress.step + max(0, batches_left) // trainer.accumulate_grad_batches
            self.total_steps = min(self.total_steps, by_epochs)
        self.rate_factor = learning_rate_factor(chosen.schedule, chosen.warmup_steps, self.total_steps)
        self.snapshot_steps = snapshot_steps(chosen.snapshots, self.total_steps)

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Trains until the steps, the epochs, the time or the patience of the run are over; the last weights are
        validated.

        Raises NonFiniteError, or Interrupted if a signal has asked it to stop, after it has saved a checkpoint (if the
        error's `can_save` is true).
        """
        chosen, steps, ended_by_itself = self.settings.training, self.batches_of_steps(), False
        self.module.train()
        self.agreement.start(self.seconds_before)
        self.reporter.start(self.progress.step, self.total_steps, self.seconds_before, self.why_over())
        self.throughput.start()
        with self.signals.deferred():  # a first signal has no effect until `step` or `evaluate_split` checks for it
            try:
                if self.progress.step == 0:
                    self.save_snapshot_if_due()
                if self.is_due(chosen.validate_every) and self.progress.validated_step != self.progress.step:
                    self.validate()  # due, but not done when the run was stopped
                while self.why_over() is None:
                    self.step(next(steps))
                    if self.is_due(chosen.validate_every):
                        self.validate()
                    elif self.is_due(chosen.checkpoint_every_steps) or self.agreement.is_time_to_save:
                        self.save(LAST_CHECKPOINT)
                if self.progress.validated_step != self.progress.step:
                    self.validate()
                self.agreement.stop_if_asked()
                ended_by_itself = True
            except (Interrupted, NonFiniteError) as error:
                if error.can_save:
                    self.save(LAST_CHECKPOINT)
                    if isinstance(error, Interrupted):
                        error.how = f"and saved at step {self.progress.step:,}"
                raise
            finally:
                self.dropout_warmup.end()
                self.reporter.stop(self.progress.step, self.why_over() if ended_by_itself else None)

    def is_due(self, every: int | None) -> bool:
        """Whether the number of updates is a multiple of `every`."""
        return every is not None and self.progress.step > 0 and self.progress.step % every == 0

    def why_over(self) -> str | None:
        """Why no further step is made; None if one is made."""
        waited = self.progress.not_better
        if self.progress.step >= self.total_steps:
            return f"{self.progress.step:,} are done (a larger trainer.max_steps or trainer.max_epochs trains longer)"
        if waited >= self.settings.training.patience:
            why = f"{waited} validation{'s' * (waited != 1)} without a better BLEU"
            return f"{why} (a larger training.patience trains longer)"
        return "trainer.max_time is over (a larger one trains longer)" if self.agreement.share_of_time >= 1 else None

    def batches_of_steps(self) -> Iterator[list[Batch]]:
        """The batches of each further step, epoch after epoch."""
        sampler: Any = self.loader.sampler
        while True:  # at the end of an epoch, `step` has already set `progress` to the next one
            done = self.progress.batch
            sampler.start_at(self.progress.epoch, done)
            epoch = islice(self.loader, self.batches_per_epoch - done)
            while batches := list(islice(epoch, self.settings.trainer.accumulate_grad_batches)):
                yield batches

    def step(self, batches: list[Batch]) -> None:
        """One update of the weights, by the gradient of Σ loss / Σ target tokens: both sums go over all `batches` and
        all processes. Raises NonFiniteError, or Interrupted if the run was asked to stop."""
        progress, trainer = self.progress, self.settings.trainer
        learning_rate = self.settings.training.learning_rate * self.rate_factor(progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.dropout_warmup.before_step(progress.step)
        if self.guide and not self.guide.weight(progress.step):
            self.guide = None  # its table takes much memory

        self.optimizer.zero_grad()
        numbers, seen = self.backward(batches)
        sums = self.agreement.sum_over_processes(numbers)
        loss, tokens = sums[1], sums[2]
        self.fabric.strategy.precision.unscale_gradients(self.optimizer.optimizer)  # of 16-mixed
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        torch._foreach_mul_(gradients, 1 / tokens)
        norm = torch.nn.utils.get_total_norm(gradients)
        if trainer.gradient_clip_val:
            torch.nn.utils.clip_grads_with_norm_(self.weights, trainer.gradient_clip_val, norm)
        # Numbers that are not finite are found before the update.
        self.agreement.check(sums, norm, Update(progress.step, progress.epoch, learning_rate, seen))
        self.optimizer.step()

        epoch, batch = progress.epoch, progress.batch + len(batches)
        if batch >= self.batches_per_epoch:
            epoch, batch = epoch + 1, 0
        self.progress = replace(progress, epoch=epoch, batch=batch, step=progress.step + 1)
        self.average.after_step(self.progress.step)
        self.throughput.after_step(tokens)
        if self.is_due(trainer.log_every_n_steps):
            logged = {"train/loss": loss / tokens, "train/gradient_norm": norm, "train/learning_rate": learning_rate}
            self.log(logged)
        self.reporter.after_step(self.progress.step, loss / tokens)
        self.save_snapshot_if_due()
        for call in self.on_step:
            call(self)
        if self.agreement.is_asked_to_stop:
            raise self.agreement.interrupted()

    def backward(self, batches: list[Batch]) -> tuple[Tensor, list[tuple[int, Tensor, Tensor]]]:
        """Computes the gradient of the loss, summed over all batches and processes. Returns three sums over the batches
        of this process (the objective, which is the loss plus that of guided alignment; the loss; target tokens), and
        the number, pairs and objective of each batch."""
        fabric, progress, seen = self.fabric, self.progress, []
        sums, last = torch.zeros(3, device=fabric.device), progress.batch + len(batches) - 1
        for number, batch in enumerate(map(fabric.to_device, batches), progress.batch):
            seed_batch(self.settings.seed, fabric.global_rank, progress.epoch, number, fabric.device)
            record = self.module.record = AttentionRecord(cross=[]) if self.guide else None
            sums_gradients = number == last or fabric.world_size == 1  # after the last batch, over the processes
            with self.memory_of(batch), fabric.no_backward_sync(self.fabric_module, enabled=not sums_gradients):
                with fabric.autocast():
                    tokens = (batch.labels != PAD).sum()
                    loss = objective = self.fabric_module.training_step(batch, number) * tokens  # a sum, not a mean
                    if self.guide and record and record.cross:
                        objective = loss + self.guide.weight(progress.step) * self.guide.loss(record.cross, batch)
                fabric.backward(objective * fabric.world_size)  # the mean over processes, which DDP takes, is the sum
            sums += torch.stack([objective.detach().float(), loss.detach().float(), tokens.float()])
            seen.append((number, batch.indices, objective.detach()))
        self.module.record = None
        return sums, seen

    def memory_of(self, batch: Batch) -> AbstractContextManager[None]:
        """A context that names the batch if memory runs out."""
        (count, source), target = batch.source.shape, batch.labels.shape[1]
        what = f"a training batch of {count} sentence{'s' * (count != 1)} × {source} source × {target} target tokens"
        return explain_out_of_memory(what, f"data.batch_tokens (now {self.settings.data.batch_tokens})")

    # ---- validation -------------------------------------------------------------------------------------------------

    @property
    def has_validation(self) -> bool:
        return self.settings.trainer.limit_val_batches != 0

    def validate(self) -> None:
        """Scores the weights, or their average; saves best.ckpt if no score was better, and last.ckpt. With
        trainer.limit_val_batches=0 it only saves."""
        self.agreement.check_pending()
        step, best = self.progress.step, self.progress.best_score
        if not self.has_validation:
            self.save(LAST_CHECKPOINT)
            return
        self.reporter.begin()
        self.average.before_validation(step)
        with self.average.in_use():
            evaluations = {name: self.evaluate_split(name) for name in self.validation_pairs}
        found = self.chosen_score(evaluations)
        if is_better := best is None or found > best:
            self.progress = replace(self.progress, validated_step=step, best_score=found, not_better=0)
        else:
            self.progress = replace(self.progress, validated_step=step, not_better=self.progress.not_better + 1)

        bleus = {direction_name(self.translators[name].languages): e.scores["bleu"] for name, e in evaluations.items()}
        several = {f"validation/bleu.{name}": value for name, value in bleus.items() if len(bleus) > 1}
        means = {name: mean(evaluations, name) for name in ("loss", *self.validation_metrics)}
        self.log({f"validation/{name}": value for name, value in means.items()} | several)
        # The later of equal scores is the best: the first ones are often all 0.
        self.save(*([BEST_CHECKPOINT] if is_better or found == best else []), LAST_CHECKPOINT)
        self.reporter.validated(step, means, bleus, self.samples(evaluations) if is_better else [])
        for call in self.on_validation:
            call(self)
        self.throughput.start()  # the time of a validation is not part of a step

    def chosen_score(self, evaluations: dict[str, Evaluation]) -> float:
        """The score that chooses the best checkpoint: the higher the better."""
        value = mean(evaluations, self.choose_by)
        return -value if self.choose_by == "loss" else value

    def samples(self, evaluations: dict[str, Evaluation]) -> list[Sample]:
        """Some translations of a validation to show, shared out evenly among the directions."""
        samples = []
        for place, (name, one) in enumerate(evaluations.items()):
            count = len(range(place, self.settings.training.samples, len(evaluations)))
            for index in spread(len(one.hypotheses), count):
                source, reference = self.validation_pairs[name][index]
                samples.append((source, one.hypotheses[index], reference))
        return samples

    def evaluate_split(self, name: str) -> Evaluation:
        """Evaluates the model on one split of validation. Raises Interrupted."""

        def on_progress(done: int, total: int) -> None:
            self.agreement.stop_if_asked()
            self.reporter.progressed("validated", done, total)

        pairs, search = self.validation_pairs[name], self.settings.validation_search
        with explain_out_of_memory("a validation", "validation_search.beam"):
            return evaluate(
                self.translators[name], pairs, search, self.validation_metrics, with_loss=True, on_progress=on_progress
            )

    # ---- log and checkpoints ----------------------------------------------------------------------------------------

    def log(self, numbers: dict[str, Any]) -> None:
        """Writes a row of the present step to the loggers."""
        self.fabric.log_dict(numbers | {"epoch": self.progress.epoch}, step=self.progress.step)
        self.progress = replace(self.progress, log_rows=self.progress.log_rows + 1)

    def save(self, *names: str) -> None:
        """The first process writes checkpoints of these names. Raises NonFiniteError if the weights are spoiled."""
        self.agreement.check_pending()
        self.agreement.note_saved()
        if self.fabric.is_global_zero:
            self.checkpoints.save(self.progress, self.agreement.seconds_used, *names)
        self.throughput.start()

    def save_snapshot_if_due(self) -> None:
        """After the steps of `snapshot_steps`, the first process writes the model in half precision. Raises
        NonFiniteError if the weights are spoiled."""
        if self.progress.step not in self.snapshot_steps:
            return
        self.agreement.check_pending()
        if self.fabric.is_global_zero:
            translator = self.module.translator
            with self.average.in_use():
                content = model_file.tensors(translator.model, translator.tokenizers)
            halves = {name: part.half() if part.is_floating_point() else part for name, part in content.items()}
            model_file.save(Run(self.folder).snapshot(self.progress.step), translator.description(), halves)
        self.throughput.start()
