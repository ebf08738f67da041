"""A step that would spoil the weights is left out, named and saved from; memory that runs out names its batch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightning import Trainer
from torch import Tensor

from tests.cases import others_long
from tests.reliability.runs import assert_equal_runs, corpus, last, position, settings, train, trouble
from transformer.training.nonfinite import NonFiniteError, NonFiniteGuard

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def infinite_gradient(logits: Tensor) -> None:
    logits.register_hook(lambda gradient: gradient * torch.inf)


@pytest.mark.parametrize(
    ("accumulated", "cause", "said"),
    others_long(
        [
            (
                1,
                lambda logits: logits * torch.nan,
                r"the loss is nan at step 3, batch 3 of epoch 0 \(training pairs \d+, ",
            ),
            (1, infinite_gradient, r"the norm of the gradient is (nan|inf) at step 3, batch 3 of epoch 0 \(training"),
            (
                3,
                lambda logits: logits * torch.nan,
                r"the loss is nan at step 1, batch 3 of epoch 0 \(training pairs \d+, ",
            ),
        ]
    ),
)
def test_a_step_that_is_not_finite_is_named_and_what_was_good_is_saved(
    tmp_path: Path, accumulated: int, cause: Callable[[Tensor], Tensor | None], said: str
) -> None:
    changes = {"trainer__accumulate_grad_batches": accumulated, "trainer__max_steps": 5, "test": False}
    plain = settings(corpus(tmp_path), **changes)
    with pytest.raises(NonFiniteError, match=said) as stopped, trouble(4, cause):
        train(tmp_path / "run", plain)
    assert "learning rate 0.0" in str(stopped.value)
    assert str(stopped.value).count(" of epoch 0 (") == 1, "of the accumulated batches only the one with such a loss"
    assert "try a lower training.learning_rate" in str(stopped.value)
    assert position(tmp_path / "run")["steps"] == 3 // accumulated
    # Without its cause, it goes on as if nothing had been.
    train(tmp_path / "run", plain, last(tmp_path / "run"))
    train(tmp_path / "whole", plain)
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")


@pytest.mark.long
def test_steps_that_are_looked_at_together_are_looked_at_before_they_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_later(guard: NonFiniteGuard) -> None:
        build(guard)
        guard.every = 50  # as on a GPU, where all of these five steps end before anybody looks

    build = NonFiniteGuard.__init__
    monkeypatch.setattr(NonFiniteGuard, "__init__", look_later)
    changes = {"trainer__max_steps": 5, "training__validate_every": 9, "test": False}
    plain = settings(corpus(tmp_path), **changes, training__checkpoint_every_steps=2)
    with (
        pytest.raises(NonFiniteError, match="the loss is nan at step 3"),
        trouble(4, lambda logits: logits * torch.nan),
    ):
        train(tmp_path / "run", plain)
    # Counts and schedule had gone on without updates by then: what was saved before stays, and is gone on from exactly.
    assert position(tmp_path / "run")["steps"] == 2
    train(tmp_path / "run", plain, last(tmp_path / "run"))
    train(tmp_path / "whole", plain)
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")


def test_fp16_goes_on_after_an_infinite_gradient_but_not_after_such_a_loss(tmp_path: Path) -> None:
    class Fp16(Trainer):
        precision = "16-mixed"  # which Lightning has on GPUs only

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    finite, infinite = torch.tensor(1.0), torch.tensor(torch.inf)
    half, full = (kind(accelerator="cpu", logger=False, default_root_dir=tmp_path) for kind in (Fp16, Trainer))
    NonFiniteGuard().check(half, optimizer, finite, infinite)
    for trainer, loss, norm in ((half, infinite, finite), (full, finite, infinite)):
        with pytest.raises(NonFiniteError, match="at step 0, "):
            NonFiniteGuard().check(trainer, optimizer, loss, norm)


def test_of_equal_validations_the_later_weights_are_the_best(tmp_path: Path) -> None:
    changes = {"trainer__max_steps": 4, "training__validate_every": 2, "training__learning_rate": 1e-12, "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), **changes))
    best = torch.load(tmp_path / "run" / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["run"]["progress"]["steps"] == 4


@pytest.mark.parametrize(("batch", "said"), [(2, "a training batch of"), (4, "a validation batch of")])
def test_memory_that_runs_out_names_the_batch_and_the_setting(tmp_path: Path, batch: int, said: str) -> None:
    plain = settings(corpus(tmp_path), training__validate_every=3)
    shape = rf"out of memory at {said} \d+ sentences × \d+ source × \d+ target tokens: lower data.batch_tokens"
    with (
        pytest.raises(ValueError, match=rf"{shape} \(now 100\)"),
        trouble(batch, lambda _: torch.empty(1 << 58)),
    ):
        train(tmp_path / "run", plain)
