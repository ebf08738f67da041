"""How the weights are found: the settings of training, the optimizer and its schedule."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from transformer.training.consistency import RegularizationSettings


@dataclass(frozen=True)
class AveragingSettings:
    """`decay` is of the exponential average, `count` how many validations' weights the plain mean takes."""

    kind: Literal["none", "exponential", "last"]
    decay: Annotated[float, "> 0", "< 1"]
    count: Annotated[int, ">= 1"]


@dataclass(frozen=True)
class TrainingSettings:
    """How weights are found; `validate_every` counts steps, `patience` validations without a better BLEU; `compile` is
    a backend of torch.compile."""

    optimizer: Literal["adam", "adamw"]
    learning_rate: Annotated[float, "> 0"]
    betas: list[Annotated[float, ">= 0", "< 1"]]
    weight_decay: Annotated[float, ">= 0"]
    schedule: Literal["inverse_square_root", "cosine"]
    warmup_steps: Annotated[int, ">= 0"]
    label_smoothing: Annotated[float, ">= 0", "< 1"]
    regularization: RegularizationSettings
    averaging: AveragingSettings
    validate_every: Annotated[int, ">= 1"]
    patience: Annotated[int, ">= 1"]
    checkpoint_every_steps: Annotated[int, ">= 1"] | None
    checkpoint_every_minutes: Annotated[float, "> 0"] | None
    samples: Annotated[int, ">= 0"]
    compile: Literal["inductor", "aot_eager"] | None

    def __post_init__(self) -> None:
        if len(self.betas) != 2:
            raise ValueError(f"training.betas={self.betas} must be two numbers")


def compile_passes(model: nn.Module, backend: str | None) -> None:
    """Compiles a Transformer's passes over whole sentences, if told to; the single steps of a search are not."""
    if backend:
        for name in ("encode", "states"):
            setattr(model, name, torch.compile(getattr(model, name), backend=backend, dynamic=True))


def learning_rate_factor(settings: TrainingSettings, total_steps: int | float) -> Callable[[int], float]:
    """The share of the peak rate at each step: linear warm-up, then 1/√step (Vaswani et al. 2017, eq. 3) or half a
    cosine down to nothing at `total_steps` (Loshchilov & Hutter 2017)."""
    warmup = max(1, settings.warmup_steps)

    def factor(step: int) -> float:
        # The scheduler counts from 0; a first step at rate 0 would be wasted.
        step += 1
        if step < warmup:
            return step / warmup
        if settings.schedule == "inverse_square_root":
            return math.sqrt(warmup / step)
        done = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        return 0.5 * (1 + math.cos(math.pi * done))

    return factor


def may_be_fused(precision: str) -> bool:
    """A fused optimizer would unscale the gradients of fp16 only after they were clipped."""
    return precision != "16-mixed"


def optimization(
    weights: Iterable[torch.nn.Parameter], settings: TrainingSettings, total_steps: int | float, fused: bool
) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """The optimizer of `weights` and its schedule over `total_steps` (infinite where nothing but time or patience ends
    a run)."""
    if settings.schedule == "cosine" and total_steps == float("inf"):
        raise ValueError("training.schedule=cosine ends at the last step: set trainer.max_steps or max_epochs")
    every = list(weights)
    # Biases, norms and the like are not decayed: they do not overfit by growing.
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight in every if weight.dim() > 1]},
        {"params": [weight for weight in every if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    betas = (settings.betas[0], settings.betas[1])
    optimizer = kind(groups, settings.learning_rate, betas, weight_decay=settings.weight_decay, fused=fused)
    return optimizer, LambdaLR(optimizer, learning_rate_factor(settings, total_steps))
