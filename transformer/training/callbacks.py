"""What Lightning does not do by itself: checkpoints that are whole, and a validation at the very end."""

from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.plugins.io import TorchCheckpointIO

from transformer.storage.whole import whole_file


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint under a temporary name, flushes and renames it; reads it without running code of it."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        with whole_file(Path(path)) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return super().load_checkpoint(path, map_location, weights_only=True)


class FinalValidation(Callback):
    """Validates once more when training ends between two validations, so that every run has a best checkpoint."""

    def __init__(self) -> None:
        self.validated_step = -1

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.validated_step = trainer.global_step

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        if self.validated_step != trainer.global_step:
            # As Lightning's own loop does in the middle of an epoch.
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True
