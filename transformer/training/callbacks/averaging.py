"""An average of the weights over time: what is validated, tested and saved instead of those of the last step."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn

from transformer.evaluation import score
from transformer.training.config import AveragingSettings


class WeightAverage(Callback):
    """exponential: average ← d average + (1 − d) weights after every step, d = min(decay, (1 + step) / (10 + step)), so
    that the beginning is soon forgotten (Polyak & Juditsky 1992). last: the mean of the weights at the last validations
    (Vaswani et al. 2017, section 6.1), kept in memory and in every checkpoint.

    A checkpoint's `state_dict` holds the average, for whoever loads it. Lightning's own callbacks would save the wrong
    weights where a signal ends a run amid a validation. Must come before what makes a digest of a checkpoint.
    """

    def __init__(self, model: nn.Module, settings: AveragingSettings) -> None:
        self.model, self.settings = model, settings
        self.average: list[Tensor] = []
        self.snapshots: dict[int, list[Tensor]] = {}
        self.in_use = False

    def _weights(self) -> list[Tensor]:
        return [weight.data for weight in self.model.parameters()]

    def _swap(self) -> None:
        """Exchanges the weights' storages; the optimizer, which knows the parameters, sees nothing of it."""
        for number, weight in enumerate(self.model.parameters()):
            weight.data, self.average[number] = self.average[number], weight.data
        self.in_use = not self.in_use

    @contextmanager
    def _used(self, wanted: bool) -> Iterator[None]:
        """The model with the average in place, or without it."""
        if other := self.in_use != wanted:
            self._swap()
        try:
            yield
        finally:
            if other:
                self._swap()

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        weights = self._weights()
        self.average = [a.to(w.device) for a, w in zip(self.average, weights, strict=True)] if self.average else [
            weight.clone() for weight in weights
        ]  # fmt: skip
        for step, snapshot in self.snapshots.items():
            self.snapshots[step] = [a.to(w.device) for a, w in zip(snapshot, weights, strict=True)]

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        if self.settings.kind == "exponential" and (batch_index + 1) % trainer.accumulate_grad_batches == 0:
            step = trainer.global_step
            decay = min(self.settings.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self.average, self._weights(), 1 - decay)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        if self.settings.kind == "last":
            # A validation that is begun again has left its weights here already.
            self.snapshots[trainer.global_step] = [weight.clone() for weight in self._weights()]
            self.snapshots = dict(sorted(self.snapshots.items())[-self.settings.count :])
            self.average = [torch.stack(same).mean(dim=0) for same in zip(*self.snapshots.values(), strict=True)]
        self._swap()

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if self.in_use:
            self._swap()

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        with self._used(True):
            checkpoint["state_dict"] = module.state_dict()
        with self._used(False):
            checkpoint["averaging"] = {"weights": self._weights(), "snapshots": self.snapshots}

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != "fit":
            return
        self.average = [weight.clone() for weight in self._weights()]
        if saved := checkpoint.get("averaging"):
            self.snapshots = saved["snapshots"]
            for weight, as_trained in zip(self._weights(), saved["weights"], strict=True):
                weight.copy_(as_trained)

    def is_beaten(self, trainer: Trainer, module: Any) -> bool:
        """Whether, after training, the weights of the last step translate the validation set better than the best
        average did."""
        best = trainer.checkpoint_callback.best_model_score  # type: ignore[union-attr]
        # The whole number 1 is one batch, not all of them.
        if best is None or trainer.limit_val_batches != 1.0 or isinstance(trainer.limit_val_batches, int):
            return False
        sources, references = zip(*module.texts["validation"], strict=True)
        hypotheses = module.translator.translate(list(sources), module.validation_search)
        found = score(hypotheses, list(references), module.translator.target_language, ["bleu"])["bleu"]
        if trainer.is_global_zero:
            print(f"validation BLEU: {best:.2f} averaged, {found:.2f} with the last step's weights", file=sys.stderr)
        return found > float(best)
