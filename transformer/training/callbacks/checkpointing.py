"""Checkpoints: written whole, holding where the run stands, and saved in time."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import Tensor

from transformer.config import from_dict
from transformer.data.printable import say
from transformer.files import LAST_CHECKPOINT, METRICS_LOG, RESULTS, TRANSLATOR, atomic_file
from transformer.inference.checkpoint import load_training
from transformer.training.callbacks.nonfinite import NonFiniteError
from transformer.training.callbacks.signals import Interrupted, SignalHandler
from transformer.training.callbacks.train_progress import TrainProgress, limited
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


class ValidationCheckpoint(ModelCheckpoint):
    """Saves `<name>.ckpt` after a validation, by the best value of `monitor` or (None) always.

    When a run resumes, all paths are set to this run's folder, whatever the checkpoint says, because Lightning deletes
    the file of an earlier best. Lightning does not restore `current_score`, so this class does.
    """

    def __init__(self, folder: Path, name: str, monitor: str | None) -> None:
        super().__init__(folder / "checkpoints", name, monitor, mode="max", enable_version_counter=False)
        self.path = str(folder / "checkpoints" / f"{name}.ckpt")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state: dict[str, Any] = {"dirpath": self.dirpath}
        for key in ("best_model_path", "kth_best_model_path", "last_model_path"):
            state[key] = self.path if state_dict[key] else ""
        state["best_k_models"] = {self.path: state_dict["best_model_score"]} if state_dict["best_k_models"] else {}
        super().load_state_dict(state_dict | state)
        self.current_score = state_dict["current_score"]


class BestCheckpoint(ValidationCheckpoint):
    """`best.ckpt`, by validation BLEU; of equal ones the later, as the first are often all 0. A new one makes
    `translator.safetensors` and `test.json`, which an earlier end of the run has left, out of date: they are deleted,
    so that no model and no score of a folder is of other weights. The rest is written again at the end."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "best", "validation/bleu")
        self.folder = folder

    def check_monitor_top_k(self, trainer: Trainer, current: Tensor | None = None) -> bool:
        is_equal = current is not None and self.best_model_score is not None and bool(current == self.best_model_score)
        is_new = is_equal or super().check_monitor_top_k(trainer, current)
        if trainer.is_global_zero and is_new:
            for left in (TRANSLATOR, RESULTS):
                (self.folder / left).unlink(missing_ok=True)
        return is_new


class StepCheckpoints(Callback):
    """Saves `last.ckpt` between two steps: every so many of them, every so many minutes, when a signal asks the run to
    stop (then also within a validation), when a loss or gradient is not finite (and that is seen at once), and at the
    end of a run without validations, after which ValidationCheckpoint saves.

    Every checkpoint, ValidationCheckpoint's too, holds the TrainProgress, the settings and the number of rows of
    `metrics.csv`. Must be first of the callbacks but for FinalValidation: what the others do at the start of a step
    must not have been done yet when a checkpoint is saved there.
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
        self.last, self.metrics = folder / LAST_CHECKPOINT, folder / METRICS_LOG
        self.settings, self.validation, self.signals = settings, validation, signals
        self.every_steps, self.every_minutes = every_steps, every_minutes
        self.saved: TrainProgress | None = None
        self.saved_time = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.signals.install(trainer, deferred=True)
        self.saved_time = time.monotonic()

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_index: int) -> None:
        if batch_index % trainer.accumulate_grad_batches:
            return
        # The step that is logged: after resuming Lightning may count one more, depending on where the run was stopped.
        trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step
        minutes = (time.monotonic() - self.saved_time) / 60
        due = self._stop_or_due(trainer, self.every_minutes is not None and minutes >= self.every_minutes)
        if due or (self.every_steps and trainer.global_step > 0 and trainer.global_step % self.every_steps == 0):
            self._save(trainer)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._stop_or_due(trainer)

    def on_validation_batch_end(self, trainer: Trainer, *arguments: Any) -> None:
        self._stop_or_due(trainer)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._stop_or_due(trainer)
        if trainer.limit_val_batches == 0:  # no validation has saved it
            self._save(trainer)
        self.signals.install(trainer)

    def on_test_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.signals.install(trainer)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.signals.deferred = False
        if trainer.validating and trainer.state.fn == "fit":
            # Lightning would end the loop of validation only, and leave the workers of training's loader behind.
            trainer.training = True
        # Seen late, the weights are good, but schedule, averages and counts have moved on: the last.ckpt before stays.
        if isinstance(exception, NonFiniteError) and not exception.seen_late:
            self._save(trainer)

    def _stop_or_due(self, trainer: Trainer, due: bool = False) -> bool:
        """Saves and raises Interrupted if any process received a signal; else returns whether a checkpoint is due in
        any process."""
        received = self.signals.received or 0
        if trainer.sanity_checking:
            return due
        if trainer.world_size > 1:
            # A process that stops or saves alone would leave the others waiting.
            strategy: Any = trainer.strategy
            here = torch.tensor([received, int(due)], device=strategy.root_device)
            received, due_anywhere = strategy.reduce(here, reduce_op="max").tolist()
            due = bool(due_anywhere)
        if received:
            self._save(trainer)
            raise Interrupted(received, f"and saved at step {trainer.global_step:,}")
        return due

    def _save(self, trainer: Trainer) -> None:
        module: Any = trainer.lightning_module
        module.nonfinite_guard.flush(trainer)  # updates that were left out are not saved as done
        if TrainProgress.of(trainer, self.validation.validating) != self.saved:
            trainer.save_checkpoint(self.last)

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        progress = TrainProgress.of(trainer, self.validation.validating)
        checkpoint["epoch"], checkpoint["loops"]["fit_loop"] = progress.epoch, progress.loop_state()
        for logger in trainer.loggers:
            logger.save()
        rows = len(self.metrics.read_bytes().splitlines()) - 1 if self.metrics.exists() else 0
        checkpoint["run"] = {
            "progress": asdict(progress),
            "sharding": self._sharding(trainer),
            "settings": self.settings,
            "rows": rows,
        }
        self.saved, self.saved_time = progress, time.monotonic()

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != "fit":
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        progress = from_dict(TrainProgress, checkpoint["run"]["progress"], "progress")
        if checkpoint["run"]["sharding"] != self._sharding(trainer):
            batches = limited(len(data.train_dataloader()), trainer.limit_train_batches)
            progress = progress.reshard(batches, trainer.accumulate_grad_batches)
            checkpoint["loops"]["fit_loop"] = progress.loop_state()
            if trainer.is_global_zero:
                effect = "some pairs may come twice or not at all, and dropout is drawn differently"
                say(f"epoch {progress.epoch} continues with different batches: {effect}")
        data.start = progress.epoch, progress.batch

    def _sharding(self, trainer: Trainer) -> list[int | float]:
        """What decides, beside seed and corpus, which batches a process gets."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        sharding = [trainer.world_size, trainer.accumulate_grad_batches, data.settings.batch_tokens, data.is_bucketed]
        return [*sharding, self.settings["training"]["bpe_dropout"]]
