"""Optimizers and learning-rate schedules, each a function with its name in a registry.

To add one: a function here, and its name in OPTIMIZERS or SCHEDULES of `training/config.py` (and in NEEDS_END below, if
it depends on the last step).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from transformer.model.transformer import Transformer
from transformer.training.config import SCHEDULES

Groups = list[dict[str, Any]]


def decay_groups(model: Transformer, without: Iterable[torch.Tensor] = ()) -> Groups:
    """Two parameter groups: the matrices of the layers; and, without weight decay, all other weights: biases, norms,
    and embeddings of tokens and positions."""
    left_out = {id(weight) for weight in without}
    layers = [*model.encoder.layers.parameters(), *model.decoder.layers.parameters()]
    matrices = {id(weight) for weight in layers if weight.dim() > 1}
    parameters = [weight for weight in model.parameters() if id(weight) not in left_out]
    return [
        {"params": [weight for weight in parameters if id(weight) in matrices]},
        {"params": [weight for weight in parameters if id(weight) not in matrices], "weight_decay": 0.0},
    ]


def adamw(
    model: Transformer, learning_rate: float, betas: tuple[float, float], weight_decay: float, fused: bool
) -> torch.optim.Optimizer:
    """Loshchilov & Hutter 2019."""
    groups = decay_groups(model)
    return torch.optim.AdamW(groups, learning_rate, betas, weight_decay=weight_decay, fused=fused)


def adam(
    model: Transformer, learning_rate: float, betas: tuple[float, float], weight_decay: float, fused: bool
) -> torch.optim.Optimizer:
    """Kingma & Ba 2015: weight decay is part of the gradient here."""
    groups = decay_groups(model)
    return torch.optim.Adam(groups, learning_rate, betas, weight_decay=weight_decay, fused=fused)


class MuonAdamW(torch.optim.Optimizer):
    """Muon for the matrices of the layers and AdamW for everything else, as one optimizer with one schedule and state.

    Muon's update is scaled to the size of AdamW's (0.2 √max(rows, columns); Liu et al. 2025, section 2.2), so that one
    learning rate and weight decay fit both. `betas` are for AdamW; Muon has torch's default momentum.
    """

    def __init__(
        self, model: Transformer, learning_rate: float, betas: tuple[float, float], weight_decay: float, fused: bool
    ) -> None:
        layers = [*model.encoder.layers.modules(), *model.decoder.layers.modules()]
        hidden = [layer.weight for layer in layers if isinstance(layer, nn.Linear)]
        rest = decay_groups(model, without=hidden)
        self.muon = torch.optim.Muon(hidden, learning_rate, weight_decay, adjust_lr_fn="match_rms_adamw")
        self.adamw = torch.optim.AdamW(rest, learning_rate, betas, weight_decay=weight_decay, fused=fused)
        super().__init__([*self.muon.param_groups, *self.adamw.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        with torch.enable_grad():
            loss = None if closure is None else closure()
        # Set anew, because load_state_dict replaces the groups and the state of this optimizer.
        self.muon.param_groups, self.adamw.param_groups = self.param_groups[:1], self.param_groups[1:]
        self.muon.state = self.adamw.state = self.state
        self.muon.step()  # type: ignore[no-untyped-call]
        self.adamw.step()
        return loss


def muon(
    model: Transformer, learning_rate: float, betas: tuple[float, float], weight_decay: float, fused: bool
) -> torch.optim.Optimizer:
    """Muon (Jordan et al. 2024) for the hidden matrices, AdamW for embeddings, output projection and vectors."""
    return MuonAdamW(model, learning_rate, betas, weight_decay, fused)


def can_be_fused(precision: str) -> bool:
    """Whether a fused optimizer may be used: with fp16 it would unscale the gradients after they were clipped."""
    return precision != "16-mixed"


def cosine(step: int, warmup_steps: int, total_steps: int | float) -> float:
    """Half a cosine: from 1 after warm-up to 0 at the last step (Loshchilov & Hutter 2017)."""
    progress = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
    return 0.5 * (1 + math.cos(math.pi * progress))


def inverse_square_root(step: int, warmup_steps: int, total_steps: int | float) -> float:
    """√(warm-up / step) (Vaswani et al. 2017, eq. 3, which is dim^-0.5 · step^-0.5 after warm-up)."""
    return math.sqrt(warmup_steps / step)


NEEDS_END = ("cosine",)  # schedules that need to know the last step


def warmup_note(warmup_steps: int, total_steps: int) -> str | None:
    """A line if warm-up takes more than a third of a run, for example of a preset with fewer steps; else None."""
    usual = max(1, total_steps // 10)
    if warmup_steps <= max(usual, total_steps / 3):
        return None
    return (
        f"training.warmup_steps={warmup_steps} is more than a third of {total_steps:,} steps, which leaves little time "
        f"for a falling learning rate: training.warmup_steps={usual} is usual"
    )


def learning_rate_factor(schedule: str, warmup_steps: int, total_steps: int | float) -> Callable[[int], float]:
    """The share of the peak learning rate at each step, for torch's LambdaLR: linear warm-up, then the schedule."""
    warmup_steps, after_warmup = max(1, warmup_steps), SCHEDULES[schedule]

    def factor(step: int) -> float:
        step += 1  # LambdaLR counts from 0; a first step at rate 0 would be wasted
        if step < warmup_steps:
            return step / warmup_steps
        return after_warmup(step, warmup_steps, total_steps)

    if schedule in NEEDS_END and math.isinf(total_steps):
        raise ValueError(
            f"training.schedule={schedule} ends at the last step: set trainer.max_steps, max_epochs or max_time"
        )
    return factor
