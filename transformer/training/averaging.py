"""An average of the weights over time, which is validated, tested and saved instead of the last step's weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn

from transformer.training.config import AveragingSettings


def averaging_note(settings: AveragingSettings, validate_every: int, total_steps: int) -> str | None:
    """A line about a mean that reaches far back into a run; else None. An exponential average needs none: its decay
    grows with the steps, and it never reaches back further than a ninth of them."""
    averaged = settings.count * validate_every
    if settings.kind != "last" or averaged <= total_steps / 3:
        return None
    return (
        f"training.averaging.count={settings.count} validations are {averaged:,} of {total_steps:,} steps, and the "
        "mean holds weights that had hardly learned: a smaller training.validate_every, or training.averaging.kind=none"
    )


class WeightAveraging(Callback):
    """exponential: average ← d average + (1 − d) weights after every step (averages: Polyak & Juditsky 1992), with
    d = min(decay, (1 + step) / (10 + step)), so that the beginning is soon forgotten (TensorFlow's
    ExponentialMovingAverage with num_updates). last: the mean of the weights at the last `count` validations (Vaswani
    et al. 2017, section 6.1), kept in memory and in every checkpoint.

    A checkpoint's `state_dict` holds the average, for whoever loads it. Must come before SelfContainedCheckpoint, which
    makes a digest of it. torch.optim.swa_utils.AveragedModel does not fit: it averages in a second model, while
    validation and search use this one, and knows no mean of the last weights; Lightning's own callbacks would save the
    wrong weights where a signal ends a run within a validation.
    """

    def __init__(self, model: nn.Module, settings: AveragingSettings) -> None:
        self.parameters, self.settings = list(model.parameters()), settings
        self.average: list[Tensor] = []
        self.snapshots: dict[int, list[Tensor]] = {}
        self.in_use = False

    def _weights(self) -> list[Tensor]:
        return [weight.data for weight in self.parameters]

    def _swap(self) -> None:
        """Exchanges weights and average; the parameters, which the optimizer holds, stay the same objects."""
        for number, weight in enumerate(self.parameters):
            weight.data, self.average[number] = self.average[number], weight.data
        self.in_use = not self.in_use

    @contextmanager
    def _with_average(self, wanted: bool) -> Iterator[None]:
        """A context in which the model has the average in place of its weights, or has not."""
        swap = self.in_use != wanted
        if swap:
            self._swap()
        try:
            yield
        finally:
            if swap:
                self._swap()

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        weights = self._weights()
        if not self.average:
            self.average = [weight.clone() for weight in weights]
        self.average = [a.to(w.device) for a, w in zip(self.average, weights, strict=True)]
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
            # A validation that was stopped and begins again has left its weights here already.
            self.snapshots[trainer.global_step] = [weight.clone() for weight in self._weights()]
            self.snapshots = dict(sorted(self.snapshots.items())[-self.settings.count :])
            self.average = [torch.stack(same).mean(dim=0) for same in zip(*self.snapshots.values(), strict=True)]
        self._swap()

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if self.in_use:
            self._swap()

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # The mean of the last validations' weights is that of the untrained ones until the first validation.
        with self._with_average(self.settings.kind == "exponential" or bool(self.snapshots)):
            checkpoint["state_dict"] = module.state_dict()
        with self._with_average(False):
            checkpoint["averaging"] = {"weights": self._weights(), "snapshots": self.snapshots}

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != "fit":
            return
        self.average = [weight.clone() for weight in self._weights()]
        if saved := checkpoint.get("averaging"):
            self.snapshots = saved["snapshots"]
            for weight, trained in zip(self._weights(), saved["weights"], strict=True):
                weight.copy_(trained)
