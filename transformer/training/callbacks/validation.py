"""Every run ends with a validation, and early if BLEU no longer improves, wherever it was interrupted."""

from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping

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

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        # An epoch that the last step cuts short has not ended; logged as it would be after resuming here.
        loop: Any = trainer.fit_loop
        epochs = loop.epoch_progress.current
        epochs.processed = epochs.completed = TrainProgress.of(trainer, self.validating).epoch
        loop.epoch_loop._batches_that_stepped = trainer.global_step
        if self.validated_step != trainer.global_step:
            # As Lightning's loop validates in the middle of an epoch.
            trainer.validating = True
            loop.epoch_loop.val_loop.run()
            trainer.training = True

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
        trainer.should_stop = self.wait_count >= self.patience
        if trainer.should_stop and trainer.is_global_zero:
            what = f"{self.wait_count} validations without a better BLEU"
            say(f"no step is left: {what} (a greater training.patience trains on)")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict | {"patience": self.patience})
