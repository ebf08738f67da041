"""What ends training before it does harm: a loss or gradient that is not finite, and memory that runs out."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from transformer.data.batching import Batch


class NonFiniteError(ValueError):
    """A step that would have spoiled the weights, and was left out."""


@dataclass
class Step:
    """One update: its batches as (number in the epoch, numbers of its pairs, loss), and what came of them."""

    number: int
    epoch: int
    learning_rate: float
    batches: list[tuple[int, Tensor, Tensor]]
    norm: Tensor
    finite: Tensor


class NonFiniteGuard:
    """Raises NonFiniteError before an update whose loss or gradient is not finite, in all processes alike.

    Answers are asked for after `every` steps, and before a validation. A GPU would have to be waited for at each step;
    meanwhile its fused optimizer leaves out all updates from a bad one on, without telling the CPU.
    """

    def __init__(self) -> None:
        self.every: int | None = None
        self.batches: list[tuple[int, Tensor, Tensor]] = []
        self.steps: list[Step] = []

    def add(self, number: int, batch: Batch, loss: Tensor) -> None:
        self.batches.append((number, batch.indices, loss.detach()))

    def check(self, trainer: Any, optimizer: torch.optim.Optimizer, loss: Tensor, norm: Tensor) -> None:
        """`loss` is the sum over the step's batches and all processes, `norm` that of the gradient to be applied."""
        # fp16's scaler lowers the scale after a gradient that is not finite, leaves out that update and goes on.
        scaled = trainer.precision == "16-mixed"
        finite = loss.isfinite() if scaled else loss.isfinite() & norm.isfinite()
        rate = float(optimizer.param_groups[0]["lr"])
        self.steps.append(Step(trainer.global_step, trainer.current_epoch, rate, self.batches, norm, finite))
        self.batches = []
        if self.every is None:
            self.every = 1 if scaled or norm.device.type == "cpu" else max(1, trainer.log_every_n_steps)
        if len(self.steps) >= self.every:
            self.ask(trainer)
        else:
            bad = ~torch.stack([step.finite for step in self.steps]).all()
            optimizer.found_inf = bad.float()  # type: ignore[attr-defined]

    def ask(self, trainer: Trainer) -> None:
        steps, self.steps = self.steps, []
        answers = torch.stack([step.finite for step in steps]).tolist() if steps else []
        for step, finite in zip(steps, answers, strict=True):
            if not finite:
                raise NonFiniteError(_describe(step, trainer))


def _describe(step: Step, trainer: Trainer) -> str:
    """What was not finite, and in which batches: of all processes, as the guilty one may be another than the first."""
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    lines = data.split("train").lines
    found = [(number, lines[pairs.cpu().numpy()].tolist(), loss.item()) for number, pairs, loss in step.batches]
    shares: list[Any] = [found]
    if trainer.world_size > 1:
        shares = [None] * trainer.world_size
        torch.distributed.all_gather_object(shares, found)
    batches = [batch for share in shares for batch in share]
    guilty = [batch for batch in batches if not math.isfinite(batch[2])]
    what = f"the loss is {guilty[0][2]}" if guilty else f"the norm of the gradient is {step.norm.item()}"
    where = "; ".join(
        f"batch {number} of epoch {step.epoch} (training lines {', '.join(map(str, named[:10]))}"
        f"{', …' if len(named) > 10 else ''})"
        for number, named, _ in (guilty or batches)[:4]
    )
    return (
        f"{what} at step {step.number}, {where}, learning rate {step.learning_rate:.3g}: the weights were left as "
        "before it; try a lower training.learning_rate or more training.warmup_steps"
    )


class OutOfMemoryAdvice(Callback):
    """Knows which batch is at work, to name it when memory runs out."""

    def __init__(self, batch_tokens: int) -> None:
        self.batch_tokens = batch_tokens
        self.at_work: tuple[str, Batch] | None = None

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_index: int) -> None:
        self.at_work = "training", batch

    def on_validation_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, *at: int) -> None:
        self.at_work = "validation", batch

    def on_test_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, *at: int) -> None:
        self.at_work = "test", batch

    @contextmanager
    def named(self) -> Iterator[None]:
        """Turns the error of a GPU or CPU without memory into one that says what to change."""
        try:
            yield
        except RuntimeError as error:
            # torch has no type of its own for a CPU's.
            out = isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
            if not out or self.at_work is None:
                raise
            name, batch = self.at_work
            sentences, source = batch.source.shape
            beams = "" if name == "training" else " or search.beam"
            raise ValueError(
                f"out of memory at a {name} batch of {sentences} sentences × {source} source × {batch.labels.shape[1]} "
                f"target tokens: lower data.batch_tokens (now {self.batch_tokens}){beams}, or choose a smaller model"
            ) from error
