"""A step that would damage the weights is skipped, named and the run saved; an out-of-memory error names its batch."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.cases import others_long
from tests.reliability.runs import assert_equal_runs, corpus, last, position, settings, train, trouble
from tests.training.small import module_for, numbers_data, training_for
from transformer.training.nonfinite import NonFiniteError, Update

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
def test_a_step_that_is_not_finite_is_named_and_the_last_good_state_is_saved(
    tmp_path: Path, accumulated: int, cause: Callable[[Tensor], Tensor | None], said: str
) -> None:
    changes = {"trainer__accumulate_grad_batches": accumulated, "trainer__max_steps": 5, "test": False}
    plain = settings(corpus(tmp_path), **changes)
    with pytest.raises(NonFiniteError, match=said) as stopped, trouble(4, cause):
        train(tmp_path / "run", plain)
    assert "learning rate 0.0" in str(stopped.value)
    assert str(stopped.value).count(" of epoch 0 (") == 1, "of the accumulated batches only the one with such a loss"
    assert "try a lower training.learning_rate" in str(stopped.value)
    assert position(tmp_path / "run")["step"] == 3 // accumulated
    # Without the cause, it continues as if nothing had happened.
    train(tmp_path / "run", plain, last(tmp_path / "run"))
    train(tmp_path / "whole", plain)
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")


def test_fp16_continues_after_an_infinite_gradient_but_not_after_such_a_loss(tmp_path: Path) -> None:
    finite, infinite = torch.tensor(1.0), torch.tensor(torch.inf)
    data = numbers_data(tmp_path)
    for precision, loss, norm, ends in (
        ("16-mixed", finite, infinite, False),
        ("16-mixed", infinite, finite, True),
        ("32-true", finite, infinite, True),
    ):
        training = training_for(module_for(data), data, tmp_path)
        agreement = training.agreement
        agreement.trainer = replace(agreement.trainer, precision=precision)
        sums, update = agreement.sum_over_processes(torch.stack([loss, loss, finite])), Update(0, 0, 0.1, [])
        with pytest.raises(NonFiniteError, match="at step 0, ") if ends else nullcontext():
            agreement.check(sums, norm, update)


def test_after_equal_validations_the_later_weights_are_the_best(tmp_path: Path) -> None:
    changes = {"trainer__max_steps": 4, "training__validate_every": 2, "training__learning_rate": 1e-12, "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), **changes))
    best = torch.load(tmp_path / "run" / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["progress"]["step"] == 4


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (
            2,
            r"a training batch of \d+ sentences × \d+ source × \d+ target tokens: lower data\.batch_tokens \(now 100\)",
        ),
        (4, r"a validation: lower validation_search\.beam"),
    ],
)
def test_an_out_of_memory_error_names_the_work_and_the_setting(tmp_path: Path, batch: int, said: str) -> None:
    plain = settings(corpus(tmp_path), training__validate_every=3)
    with (
        pytest.raises(ValueError, match=rf"out of memory at {said}, or choose a smaller model"),
        trouble(batch, lambda _: torch.empty(1 << 58)),
    ):
        train(tmp_path / "run", plain)
