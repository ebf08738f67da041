"""Checkpoints that are whole, that say where they were made, and that are made in time."""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from transformer.config import from_dict
from transformer.files import atomic_file
from transformer.inference.checkpoint import load_training
from transformer.training.callbacks.nonfinite import NonFiniteError
from transformer.training.callbacks.progress_state import TrainProgress
from transformer.training.callbacks.signals import Interrupted, SignalHandler
from transformer.training.callbacks.validation import FinalValidation


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint under a temporary name, flushes and renames it; reads it whole, checked, running no code."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        with atomic_file(Path(path)) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return load_training(Path(path))


class BestCheckpoint(ModelCheckpoint):
    """`best.ckpt`, by validation BLEU; Lightning's saves all of its state and takes up all but `current_score`.

    What a run that is gone on with had left as its best, `translator.safetensors`, goes when there is a better one.
    """

    def __init__(self, folder: Path) -> None:
        self.earlier = folder / "translator.safetensors"
        super().__init__(folder / "checkpoints", "best", "validation/bleu", mode="max", enable_version_counter=False)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        before = self.best_model_score
        super().on_validation_end(trainer, module)
        if trainer.is_global_zero and self.best_model_score != before:
            self.earlier.unlink(missing_ok=True)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.current_score = state_dict["current_score"]


class Checkpoints(Callback):
    """Saves `last.ckpt` between two steps: every so many of them, every so many minutes, when a signal asks for the end
    (then also within a validation), and when training diverges. ModelCheckpoint saves after validations.

    Every checkpoint, also ModelCheckpoint's, holds the TrainProgress, the settings and how far `metrics.csv` was. Must
    be first of the callbacks, but for FinalValidation: what the others do at the start of a step is then still to come.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any],
        validation: FinalValidation,
        signals: SignalHandler,
        every_steps: int | None,
        every_minutes: float | None,
    ) -> None:
        self.last, self.metrics = folder / "checkpoints" / "last.ckpt", folder / "metrics.csv"
        self.settings, self.validation, self.signals = settings, validation, signals
        self.every_steps, self.every_minutes = every_steps, every_minutes
        self.saved: TrainProgress | None = None
        self.saved_time = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.signals.install(trainer, waits=True)
        self.saved_time = time.monotonic()

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_index: int) -> None:
        if batch_index % trainer.accumulate_grad_batches:
            return
        # The number of the step in the log: resumed, Lightning counts one more or not, depending on the place.
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step
        minutes = (time.monotonic() - self.saved_time) / 60
        due = self._stop_or_agree(trainer, self.every_minutes is not None and minutes >= self.every_minutes)
        if due or (self.every_steps and trainer.global_step > 0 and trainer.global_step % self.every_steps == 0):
            self._save(trainer)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._stop_or_agree(trainer)

    def on_validation_batch_end(self, trainer: Trainer, *arguments: Any) -> None:
        self._stop_or_agree(trainer)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._stop_or_agree(trainer)
        self.signals.install(trainer)

    def on_test_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.signals.install(trainer)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.signals.waits = False
        if trainer.validating and trainer.state.fn == "fit":
            # Lightning would end the loop of validation only, and leave the workers of training's loader behind.
            trainer.training = True
        if isinstance(exception, NonFiniteError):
            self._save(trainer)

    def _stop_or_agree(self, trainer: Trainer, due: bool = False) -> bool:
        """Ends the run, saved, if any process was asked to; else says whether a checkpoint is due for any."""
        received = self.signals.received or 0
        if trainer.sanity_checking:
            return due
        if trainer.world_size > 1:
            # One process that stops or saves alone leaves the others waiting.
            strategy: Any = trainer.strategy
            mine = torch.tensor([received, int(due)], device=strategy.root_device)
            received, agreed = strategy.reduce(mine, reduce_op="max").tolist()
            due = bool(agreed)
        if received:
            self._save(trainer)
            raise Interrupted(received, saved_step=trainer.global_step)
        return due

    def _save(self, trainer: Trainer) -> None:
        if TrainProgress.of(trainer, self.validation.validating) != self.saved:
            trainer.save_checkpoint(self.last)

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        position = TrainProgress.of(trainer, self.validation.validating)
        checkpoint["epoch"], checkpoint["loops"]["fit_loop"] = position.epoch, position.progress()
        for logger in trainer.loggers:
            logger.save()
        rows = len(self.metrics.read_bytes().splitlines()) - 1 if self.metrics.exists() else 0
        checkpoint["run"] = {
            "position": asdict(position),
            "dealing": self._dealing(trainer),
            "settings": self.settings,
            "rows": rows,
        }
        self.saved, self.saved_time = position, time.monotonic()

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != "fit":
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        position = from_dict(TrainProgress, checkpoint["run"]["position"], "position")
        if checkpoint["run"]["dealing"] != self._dealing(trainer):
            position = position.reshard(len(data.train_dataloader()), trainer.accumulate_grad_batches)
            checkpoint["loops"]["fit_loop"] = position.progress()
            if trainer.is_global_zero:
                said = "pairs may come twice or not at all, dropout is another"
                print(f"the batches of epoch {position.epoch} are dealt out anew: {said}", file=sys.stderr)
        data.start = position.epoch, position.batch

    def _dealing(self, trainer: Trainer) -> list[int | float]:
        """What decides which batches a process gets, beside seed and corpus."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        dropout = self.settings["training"]["bpe_dropout"]
        dealing = [trainer.world_size, trainer.accumulate_grad_batches, data.settings.batch_tokens]
        # Without dropout as older versions have saved it.
        return [*dealing, dropout] if dropout else dealing
