"""Every run ends with a validation, and early if BLEU no longer improves or its time is over, wherever it was
interrupted."""

from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, Timer

from transformer.data.printable import say
from transformer.training.callbacks.train_progress import TrainProgress


class FinalValidation(Callback):
    """Validates once more when training ends between two validations, so that every run has a best checkpoint.

    Not by `trainer.validate` after `trainer.fit`: outside fit, Lightning's ModelCheckpoint and EarlyStopping do
    nothing.
    """

    def __init__(self) -> None:
        self.validated_step = -1
        self.validating = False
        self.resumed = False

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        if self.resumed:
            # With no step left Lightning would skip fit as a whole, and with it a final validation that was stopped.
            loop = trainer.fit_loop
            self.limits = loop.epoch_loop.max_steps, loop.max_epochs
            loop.epoch_loop.max_steps, loop.max_epochs = -1, -1

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if self.resumed:
            trainer.fit_loop.epoch_loop.max_steps, trainer.fit_loop.max_epochs = self.limits

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.validating = not trainer.sanity_checking

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.validating, self.validated_step = False, trainer.global_step

    def on_train_end(self, trainer: Trainer, module: Any) -> None:
        # An epoch that the last step cuts short has not ended; logged as it would be after resuming here.
        loop: Any = trainer.fit_loop
        epochs, progress = loop.epoch_progress.current, TrainProgress.of(trainer, self.validating)
        epochs.processed = epochs.completed = progress.epoch
        if self.validated_step != trainer.global_step:
            # A run that resumes within its last validation has none of Lightning's here. If that one was due by
            # training.validate_every, Lightning would have logged it one step earlier.
            is_due = trainer.global_step % module.settings.validate_every == 0
            loop.epoch_loop._batches_that_stepped = trainer.global_step - is_due
            # As Lightning's loop validates in the middle of an epoch.
            trainer.validating = True
            loop.epoch_loop.val_loop.run()
            trainer.training = True
            # Lightning, too, validates before it ends an epoch; what follows is logged in the next one.
            epochs.processed = epochs.completed = progress.epoch + (progress.batch == progress.batches)
        loop.epoch_loop._batches_that_stepped = trainer.global_step

    def state_dict(self) -> dict[str, Any]:
        return {"validated_step": self.validated_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.validated_step, self.resumed = state_dict["validated_step"], True


class Patience(EarlyStopping):
    """Stops after so many validations without a better BLEU; a resumed run that had stopped so does not go on unless it
    is given more patience."""

    def __init__(self, patience: int) -> None:
        super().__init__("validation/bleu", mode="max", patience=patience)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.first_step = trainer.global_step
        is_over = self.wait_count >= self.patience
        trainer.should_stop = trainer.should_stop or is_over
        self._say(trainer, is_over, "no step is left")

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        step, is_over = trainer.global_step, self.wait_count >= self.patience
        is_early = self.first_step < step < trainer.estimated_stepping_batches
        self._say(trainer, is_over and is_early, f"no further step after {step:,}")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict | {"patience": self.patience})

    def _say(self, trainer: Trainer, is_over: bool, what: str) -> None:
        if is_over and trainer.is_global_zero:
            why = f"{self.wait_count} validation{'s' * (self.wait_count != 1)} without a better BLEU"
            say(f"{what}: {why} (a larger training.patience trains longer)")


class TimeLimit(Timer):
    """Stops after trainer.max_time. Where that was over before, a resumed run still makes up for a final validation
    that was stopped: Lightning's own Timer would skip fit as a whole."""

    def on_fit_start(self, trainer: Trainer, *args: Any) -> None:
        pass

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        super().on_train_start(trainer, module)
        if trainer.strategy.broadcast((self.time_remaining() or 0.0) <= 0):
            trainer.should_stop = True
            if trainer.is_global_zero:
                say("no step is left: trainer.max_time is over (a larger one trains longer)")
