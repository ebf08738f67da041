"""Dropout that grows while a model sees its corpus more and more often."""

from typing import Any

from lightning import Callback, Trainer

from transformer.model import Transformer
from transformer.model.dropout import Dropout


class DropoutWarmup(Callback):
    """Raises all dropout of a model in even steps from 0 to what its settings say, over the first `steps` updates
    (Curriculum Dropout, Morerio et al. 2017, with a straight line for their curve).

    Dropout prevents overfitting. While the sentences are new there is nothing to prevent, and it only slows learning
    down.
    """

    def __init__(self, model: Transformer, steps: int) -> None:
        self.steps = steps
        self.dropouts = [(module, module.p) for module in model.modules() if isinstance(module, Dropout)]

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
        self._set(min(1.0, trainer.global_step / self.steps))

    def on_train_end(self, trainer: Trainer, module: Any) -> None:
        self._set(1.0)

    def _set(self, share: float) -> None:
        for dropout, p in self.dropouts:
            dropout.p = share * p
