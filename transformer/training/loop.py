"""The training loop. Begin with `Training.fit`: step after step, a validation every so often, and how it ends.

All randomness of a batch is a function of its place (seed, process, epoch, batch). So a checkpoint holds no state of a
random generator, and a run that goes on from one ends with the same weights, bit for bit, as one that never stopped.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from lightning import Fabric
from torch import Tensor

from transformer.config import from_dict
from transformer.data.batching import Batch, limited
from transformer.data.datamodule import TranslationData
from transformer.data.directions import direction_name
from transformer.data.tokenizer import PAD
from transformer.evaluation.evaluate import Evaluation, evaluate
from transformer.files import BEST_CHECKPOINT, LAST_CHECKPOINT, RESULTS, TRANSLATOR, atomic_file
from transformer.model.attention import AttentionRecord
from transformer.signals import Interrupted, SignalHandler
from transformer.training.averaging import WeightAverage
from transformer.training.config import RunSettings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.module import TranslationModule
from transformer.training.nonfinite import NonFiniteError, Update, nonfinite_error
from transformer.training.optim import can_be_fused, learning_rate_factor
from transformer.training.out_of_memory import explain_out_of_memory
from transformer.training.readback import Readback
from transformer.training.regularization import DropoutWarmup
from transformer.training.reporter import Reporter
from transformer.training.throughput import Throughput

# Far more than any run has of anything: a checkpoint with a larger count was not written by this program.
Count = Annotated[int, ">= 0", "<= 1000000000000"]


@dataclass(frozen=True)
class TrainProgress:
    """Where a run stands between two updates: the epochs, batches of the current epoch (of each process) and updates
    that are done; the update that was validated last (-1: none), the best validation BLEU so far (None: there is none),
    and how many validations in a row were not better."""

    epoch: Count = 0
    batch: Count = 0
    step: Count = 0
    validated: Annotated[int, ">= -1", "<= 1000000000000"] = -1
    best: float | None = None
    not_better: Count = 0


def seed_batch(seed: int, rank: int, epoch: int, batch: int, device: torch.device) -> None:
    """Seeds torch for a training batch by its place."""
    of_batch = int(np.random.SeedSequence([seed, rank, epoch, batch]).generate_state(1, np.uint64)[0])
    # 10 µs; torch.manual_seed takes ten times as long to look for other devices.
    torch.default_generator.manual_seed(of_batch)
    if device.type != "cpu":
        torch.manual_seed(of_batch)


def mean_bleu(evaluations: dict[str, Evaluation]) -> float:
    """Each direction counts alike, however many pairs it has."""
    return sum(one.scores["bleu"] for one in evaluations.values()) / len(evaluations)


def mean_loss(evaluations: dict[str, Evaluation]) -> float:
    return sum(one.loss or 0.0 for one in evaluations.values()) / len(evaluations)


class Training:
    """What a run holds while it trains, and the loop over it."""

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
        """`fabric` knows the device, the precision, the processes and the loggers. `saved_settings` go into every
        checkpoint. `on_step` and `on_validation` are called with this object after each."""
        trainer, training = settings.trainer, settings.training
        self.fabric, self.module, self.data, self.settings = fabric, module, data, settings
        self.saved_settings, self.folder, self.signals, self.guide = saved_settings, folder, signals, guide
        self.on_step, self.on_validation = on_step, on_validation
        self.progress = TrainProgress()

        self.loader = data.loader("train", fabric.global_rank, fabric.world_size, trainer.accumulate_grad_batches)
        self.batches_per_epoch = limited(len(self.loader), trainer.limit_train_batches)
        by_epochs = trainer.max_epochs * (self.batches_per_epoch // trainer.accumulate_grad_batches)
        # Updates of the whole run, unless its time or its patience ends it before.
        self.total_steps = min((limit for limit in (trainer.max_steps, by_epochs) if limit >= 0), default=math.inf)
        # The share of trainer.max_time that is over, and the seconds that the run had used when this process began.
        self.share_of_time, self.seconds_before, self.started = 0.0, 0.0, time.monotonic()

        optimizer = module.build_optimizer(fused=can_be_fused(trainer.precision))
        self.model, self.optimizer = fabric.setup(module, optimizer)
        self.weights = list(module.model.parameters())
        by_time = (lambda: self.share_of_time) if trainer.max_time else None
        self.rate = learning_rate_factor(training.schedule, training.warmup_steps, self.total_steps, by_time)
        self.average = WeightAverage(self.weights, training.averaging)
        self.dropout_warmup = DropoutWarmup(module.model, training.dropout_warmup_steps)
        self.throughput, self.readback = Throughput(bool(training.compile)), Readback[Update]()
        self.is_asked_to_stop = self.is_time_to_save = False
        self.rows, self.saved_at = 0, time.monotonic()  # logged so far; the last checkpoint

        self.pairs = {name: data.text_pairs(name, trainer.limit_val_batches) for name in data.names("validation")}
        # What translates each split: the same model, asked for the split's direction.
        self.translators = {}
        for name in [*self.pairs, *data.test_names]:
            one = copy(module.translator.in_direction(*data.all_splits[name][0].languages))
            one.lines_of, one.greedy_scores, one.warns_of_sources = name, False, False
            self.translators[name] = one
        self.reporter = Reporter(fabric, settings, self.total_steps)

    @property
    def validates(self) -> bool:
        return self.settings.trainer.limit_val_batches != 0

    @property
    def all_is_validated(self) -> bool:
        return isinstance(limit := self.settings.trainer.limit_val_batches, float) and limit == 1.0

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Trains until the steps, the epochs, the time or the patience of the run are over; the last weights are
        validated.

        Raises NonFiniteError, and Interrupted where a signal has asked it to stop; both after it has saved.
        """
        steps, every = self.batches_of_steps(), self.settings.training.validate_every
        self.started = self.saved_at = time.monotonic()
        self.throughput.start()
        self.module.train()
        with self.signals.deferred(), self.reporter.training(self):
            try:
                if self.is_due(every) and self.progress.validated != self.progress.step:
                    self.validate()  # was interrupted
                while self.why_over() is None:
                    self.step(next(steps))
                    if self.is_due(every):
                        self.validate()
                    elif self.is_due(self.settings.training.checkpoint_every_steps) or self.is_time_to_save:
                        self.save(LAST_CHECKPOINT)
                if self.progress.validated != self.progress.step:
                    self.validate()
            except (Interrupted, NonFiniteError) as error:
                if error.can_save:
                    self.save(LAST_CHECKPOINT)
                    if isinstance(error, Interrupted):
                        error.how = f"and saved at step {self.progress.step:,}"
                raise
            finally:
                self.dropout_warmup.end()

    def is_due(self, every: int | None) -> bool:
        return bool(every) and self.progress.step > 0 and self.progress.step % every == 0

    def why_over(self) -> str | None:
        """Why no further step is made; None where one is."""
        waited = self.progress.not_better
        if self.progress.step >= self.total_steps:
            return f"{self.progress.step:,} are done (a larger trainer.max_steps or trainer.max_epochs trains longer)"
        if waited >= self.settings.training.patience:
            why = f"{waited} validation{'s' * (waited != 1)} without a better BLEU"
            return f"{why} (a larger training.patience trains longer)"
        return "trainer.max_time is over (a larger one trains longer)" if self.share_of_time >= 1 else None

    def batches_of_steps(self) -> Iterator[list[Batch]]:
        """The batches of every step from here on, epoch after epoch."""
        sampler: Any = self.loader.sampler
        while True:
            done = self.progress.batch
            sampler.start_at(self.progress.epoch, done)
            epoch = islice(self.loader, self.batches_per_epoch - done)
            while batches := list(islice(epoch, self.settings.trainer.accumulate_grad_batches)):
                yield batches

    def step(self, batches: list[Batch]) -> None:
        """One update of the weights, by the gradient of Σ loss / Σ target tokens: both sums go over all `batches` and
        all processes. Raises NonFiniteError before the update (on a GPU after it)."""
        progress, training = self.progress, self.settings.training
        learning_rate = training.learning_rate * self.rate(progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.dropout_warmup.before_step(progress.step)

        self.optimizer.zero_grad()
        sums, seen = self.backward(batches)
        _, loss, tokens, *_ = sums
        self.fabric.strategy.precision.unscale_gradients(self.optimizer.optimizer)  # of fp16
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        torch._foreach_mul_(gradients, 1 / tokens)
        norm = torch.nn.utils.get_total_norm(gradients)
        if clip := self.settings.trainer.gradient_clip_val:
            torch.nn.utils.clip_grads_with_norm_(self.weights, clip, norm)
        update = Update(progress.step, progress.epoch, learning_rate, seen)
        self.heed(self.readback.exchange(torch.cat([sums, norm[None].float()]), update))
        self.optimizer.step()

        epoch, batch = progress.epoch, progress.batch + len(batches)
        if batch >= self.batches_per_epoch:
            epoch, batch = epoch + 1, 0
        self.progress = replace(progress, epoch=epoch, batch=batch, step=progress.step + 1)
        self.average.after_step(self.progress.step)
        self.throughput.after_step(tokens)
        if self.is_due(self.settings.trainer.log_every_n_steps):
            logged = {"train/loss": loss / tokens, "train/gradient_norm": norm, "train/learning_rate": learning_rate}
            self.log(logged)
        self.reporter.after_step(self, loss / tokens)
        for call in self.on_step:
            call(self)
        if self.is_asked_to_stop:
            raise self.interrupted()

    def backward(self, batches: list[Batch]) -> tuple[Tensor, list[tuple[int, Tensor, Tensor]]]:
        """Leaves in the weights the gradient of the summed loss of all batches and processes. Returns sums over these
        (the loss with and without guided alignment, target tokens, and `flags`), and number, pairs and loss of each
        batch of this process."""
        fabric, progress, sums, seen = self.fabric, self.progress, torch.zeros(3, device=self.fabric.device), []
        guide_weight = self.guide.weight(progress.step) if self.guide else 0.0
        if not guide_weight:
            self.guide = None  # its table takes much memory
        last = progress.batch + len(batches) - 1
        for number, batch in enumerate(map(fabric.to_device, batches), progress.batch):
            seed_batch(self.settings.seed, fabric.global_rank, progress.epoch, number, fabric.device)
            record = self.module.record = AttentionRecord(cross=[]) if self.guide else None
            is_summed = number == last or fabric.world_size == 1  # over processes, by DDP
            with self.explain_out_of_memory(batch), fabric.no_backward_sync(self.model, enabled=not is_summed):
                with fabric.autocast():
                    tokens = (batch.labels != PAD).sum()
                    loss = total = self.model.training_step(batch, number) * tokens
                    if self.guide and record and record.cross:
                        total = loss + guide_weight * self.guide.loss(record.cross, batch)
                fabric.backward(total * fabric.world_size)  # of the processes' gradients DDP takes the mean
            sums += torch.stack([total.detach().float(), loss.detach().float(), tokens.float()])
            seen.append((number, batch.indices, total.detach()))
        self.module.record = None
        sums = torch.cat([sums, torch.tensor(self.flags(), device=fabric.device)])
        if fabric.world_size > 1:  # not fabric.all_reduce, which has a barrier where the host waits for the device
            torch.distributed.all_reduce(sums)
        return sums, seen

    def explain_out_of_memory(self, batch: Batch) -> Any:
        (count, source), target = batch.source.shape, batch.labels.shape[1]
        what = f"a training batch of {count} sentence{'s' * (count != 1)} × {source} source × {target} target tokens"
        return explain_out_of_memory(what, f"data.batch_tokens (now {self.settings.data.batch_tokens})")

    # ---- what the processes have to agree on, and the guard against values that are not finite ------------------------

    def flags(self) -> list[float]:
        """Of this process: whether a signal asks it to stop, and of the first one whether a checkpoint is due by the
        clock, and the share of the time that is over."""
        if not self.fabric.is_global_zero:
            return [float(self.signals.received is not None), 0.0, 0.0]
        minutes, limit = self.settings.training.checkpoint_every_minutes, self.settings.trainer.max_seconds
        is_time_to_save = minutes is not None and time.monotonic() - self.saved_at >= 60 * minutes
        return [
            float(self.signals.received is not None),
            float(is_time_to_save),
            self.seconds_used() / limit if limit else 0.0,
        ]

    def seconds_used(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    def heed(self, read: tuple[list[float], Update] | None) -> None:
        """Takes over the flags of all processes. Raises NonFiniteError."""
        if read is None:
            return
        (total, _, _, stop, save, self.share_of_time, norm), update = read
        self.is_asked_to_stop, self.is_time_to_save = stop > 0, save > 0
        # fp16's scaler leaves out an update whose gradient is not finite, lowers its scale and goes on.
        is_scaled = self.settings.trainer.precision == "16-mixed"
        if not (math.isfinite(total) and (is_scaled or math.isfinite(norm))):
            can_save = self.fabric.device.type != "cuda"
            raise nonfinite_error(update, norm, self.data.examples("train"), can_save)

    def heed_signals(self, done: int, total: int) -> None:
        """Within a validation, of which so much is done: ends it in all processes if one was asked to stop."""
        stop = torch.tensor(float(self.signals.received is not None), device=self.fabric.device)
        if self.fabric.world_size > 1:
            torch.distributed.all_reduce(stop)
        if stop > 0:
            raise self.interrupted()
        self.reporter.progressed("validated", done, total)

    def interrupted(self) -> Interrupted:
        return Interrupted(self.signals.received or signal.SIGTERM, can_save=True)

    # ---- validation --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Scores the weights, or their average; saves last.ckpt, and best.ckpt if no BLEU was better. With
        trainer.limit_val_batches=0 it only saves."""
        self.heed(self.readback.flush())
        if not self.validates:
            self.progress = replace(self.progress, validated=self.progress.step)
            return self.save(LAST_CHECKPOINT)
        self.reporter.begin()
        self.average.before_validation(self.progress.step)
        with self.average.in_use():
            evaluations = {name: self.evaluate(name) for name in self.pairs}
        bleu, loss = mean_bleu(evaluations), mean_loss(evaluations)
        best, progress = self.progress.best, self.progress
        is_better = best is None or bleu > best
        is_best = is_better or bleu == best  # of equal ones the later, as the first are often all 0
        self.progress = replace(
            progress,
            validated=progress.step,
            best=bleu if is_better else best,
            not_better=0 if is_better else progress.not_better + 1,
        )
        each = {direction_name(self.translators[name].languages): one for name, one in evaluations.items()}
        several = {f"validation/bleu.{name}": one.scores["bleu"] for name, one in each.items() if len(each) > 1}
        self.log({"validation/loss": loss, "validation/bleu": bleu} | several)
        self.save(LAST_CHECKPOINT, *([BEST_CHECKPOINT] if is_best else []))
        self.reporter.validated(self, evaluations, bleu, loss, is_better)
        for call in self.on_validation:
            call(self)
        self.throughput.start()  # what it took is not the time of a step

    def evaluate(self, name: str) -> Evaluation:
        """Of a split of validation, with the model as it is."""
        search, tokens = self.settings.validation_search, self.settings.data.batch_tokens
        remedy = f"data.batch_tokens (now {tokens}) or validation_search.beam"
        with explain_out_of_memory("a validation", remedy):
            return evaluate(
                self.translators[name], self.pairs[name], search, ["bleu"], with_loss=True, on_progress=self.heed_signals
            )

    # ---- log and checkpoints -----------------------------------------------------------------------------------------

    def log(self, numbers: dict[str, Any]) -> None:
        self.fabric.log_dict(numbers | {"epoch": self.progress.epoch}, step=self.progress.step)
        self.rows += 1

    def save(self, *names: str) -> None:
        """Writes checkpoints of these names, each whole or not at all. Their `state_dict` holds the average, if there
        is one, for whoever translates with them."""
        self.heed(self.readback.flush())  # what is not finite is not saved
        self.saved_at, self.is_time_to_save = time.monotonic(), False
        if not self.fabric.is_global_zero:
            return
        for logger in self.fabric.loggers:
            logger.save()
        with self.average.in_use():
            checkpoint: dict[str, Any] = {
                "state_dict": self.module.state_dict(),
                "hyper_parameters": dict(self.module.hparams),
            }
            self.module.on_save_checkpoint(checkpoint)
        checkpoint |= {
            "progress": asdict(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "averaging": self.average.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),  # the scale of fp16
            "seconds": self.seconds_used(),
            "rows": self.rows,
            "sharding": self.sharding(),
            "settings": self.saved_settings,
        }
        if BEST_CHECKPOINT in names:
            # An earlier end of the run has left them: no model and no score of a folder is of other weights.
            for left in (TRANSLATOR, RESULTS):
                (self.folder / left).unlink(missing_ok=True)
        for name in names:
            with atomic_file(self.folder / name) as file:
                torch.save(checkpoint, file)

    def load(self, checkpoint: dict[str, Any]) -> str | None:
        """Goes on from a checkpoint. Returns a line if the rest of its epoch cannot be had, as its batches differ."""
        self.module.on_load_checkpoint(checkpoint)
        self.module.load_state_dict(checkpoint["state_dict"])
        self.average.load_state_dict(checkpoint["averaging"])
        options = [{key: group[key] for key in group if key != "params"} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        for group, now in zip(self.optimizer.param_groups, options, strict=True):
            group.update(now)  # the current settings hold
        self.fabric.strategy.precision.load_state_dict(checkpoint["precision"])
        self.progress = from_dict(TrainProgress, checkpoint["progress"], "progress")
        self.rows, self.seconds_before = checkpoint["rows"], checkpoint["seconds"]
        if limit := self.settings.trainer.max_seconds:
            self.share_of_time = self.seconds_before / limit
        if checkpoint["sharding"] == self.sharding() or self.progress.batch == 0:
            return None
        self.progress = replace(self.progress, epoch=self.progress.epoch + 1, batch=0)
        return (
            "other processes or batches than before: the rest of the epoch is left out, the run continues with epoch "
            f"{self.progress.epoch + 1}"
        )

    def sharding(self) -> list[int | float]:
        """What decides, beside seed and corpus, which batches a process gets."""
        data, accumulate = self.data, self.settings.trainer.accumulate_grad_batches
        batches = [self.fabric.world_size, accumulate, data.settings.batch_tokens, int(data.is_bucketed)]
        return [*batches, self.settings.training.bpe_dropout]
