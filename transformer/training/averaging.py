"""An average of the weights over time, which is validated, tested and saved instead of the last step's weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transformer.training.config import AveragingSettings


def averaging_note(settings: AveragingSettings, validate_every: int, total_steps: int) -> str | None:
    """A line if the mean takes weights from far back in the run; else None. An exponential average needs no such line:
    its decay grows with the steps, and it never reaches back further than a ninth of them."""
    averaged = settings.count * validate_every
    if settings.kind != "last" or averaged <= total_steps / 3:
        return None
    return (
        f"training.averaging.count={settings.count} validations are {averaged:,} of {total_steps:,} steps, and the "
        "mean includes weights of the beginning: lower training.validate_every, or give training.averaging.kind=none"
    )


class WeightAverage:
    """exponential: average ← d average + (1 − d) weights after every step (averages: Polyak & Juditsky 1992), with
    d = min(decay, (1 + step) / (10 + step)), so that the first weights soon count little (TensorFlow's
    ExponentialMovingAverage with num_updates). last: the mean of the weights at the last `count` validations (Vaswani
    et al. 2017, section 6.1). none: the weights themselves.

    torch.optim.swa_utils.AveragedModel is not used: it averages in a second model, while validation and search use
    this one, and it has no mean of the last weights.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], settings: AveragingSettings) -> None:
        self.parameters, self.settings = parameters, settings
        self.average = [] if settings.kind == "none" else [weight.detach().clone() for weight in parameters]
        self.snapshots: dict[int, list[Tensor]] = {}

    @property
    def is_used(self) -> bool:
        """Whether there is an average: with kind=last there is none before the first validation."""
        return self.settings.kind == "exponential" or bool(self.snapshots)

    def after_step(self, step: int) -> None:
        """Called after `step` updates."""
        if self.settings.kind == "exponential":
            decay = min(self.settings.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self.average, [weight.data for weight in self.parameters], 1 - decay)

    def before_validation(self, step: int) -> None:
        """Called before the weights are validated, after `step` updates."""
        if self.settings.kind == "last":
            self.snapshots[step] = [weight.detach().clone() for weight in self.parameters]
            self.snapshots = dict(sorted(self.snapshots.items())[-self.settings.count :])
            self.average = [torch.stack(same).mean(dim=0) for same in zip(*self.snapshots.values(), strict=True)]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within this context the model has the average in place of its weights."""
        if not self.is_used:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        """Exchanges weights and average; the parameters, which the optimizer holds, stay the same objects."""
        for number, weight in enumerate(self.parameters):
            weight.data, self.average[number] = self.average[number], weight.data

    def state_dict(self) -> dict[str, Any]:
        """The last step's weights, for a checkpoint: its own `state_dict` holds the average."""
        return {"weights": [weight.data for weight in self.parameters], "snapshots": self.snapshots}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called when the model already has the weights of the checkpoint's `state_dict`."""
        if self.settings.kind == "none":
            return
        self.average = [weight.detach().clone() for weight in self.parameters]
        for weight, trained in zip(self.parameters, state["weights"], strict=True):
            weight.data.copy_(trained)
        device = self.average[0].device
        self.snapshots = {step: [one.to(device) for one in saved] for step, saved in state["snapshots"].items()}
