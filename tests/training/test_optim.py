"""Schedules and updates compared with their formulas; Muon with AdamW compared with the two applied by hand."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.factories import small_model
from transformer import Transformer
from transformer.training.config import OPTIMIZERS
from transformer.training.optim import can_be_fused, learning_rate_factor, warmup_note


def test_a_schedule_follows_its_formula_after_a_linear_warm_up() -> None:
    cosine = learning_rate_factor("cosine", 4, 104)
    assert [cosine(step) for step in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert cosine(53) == pytest.approx(0.5)
    assert cosine(103) == pytest.approx(0.0)
    root = learning_rate_factor("inverse_square_root", 400, math.inf)
    for step in (1, 100, 400, 1600):  # equation (3) up to its constant
        paper = min(step**-0.5, step * 400**-1.5)
        assert root(step - 1) == pytest.approx(paper * math.sqrt(400))


def test_no_warm_up_or_more_of_it_than_steps_divides_nothing_by_zero() -> None:
    assert learning_rate_factor("cosine", 0, 1)(0) == pytest.approx(1.0)
    assert learning_rate_factor("cosine", 4, 1)(0) == pytest.approx(0.25)


def test_a_cosine_without_a_last_step_is_refused() -> None:
    with pytest.raises(ValueError, match=r"schedule=cosine ends at the last step: set trainer\.max_steps, "):
        learning_rate_factor("cosine", 4, math.inf)


def model_and_loss() -> tuple[Transformer, Callable[[], Tensor]]:
    torch.manual_seed(3)
    model, source, inputs = (
        small_model(positions="learned"),
        torch.randint(4, 29, (6, 11)),
        torch.randint(4, 29, (6, 7)),
    )
    return model, lambda: model(source, inputs).square().mean()  # type: ignore[return-value]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_an_update_is_that_of_the_paper_with_weight_decay_of_layers_matrices_alone(name: str, fused: bool) -> None:
    model, rate, first, second, decay = small_model(positions="learned").double(), 0.05, 0.7, 0.95, 0.3
    optimizer = OPTIMIZERS[name](model, rate, (first, second), decay, fused)
    expected = [weight.detach().clone() for weight in model.parameters()]
    means, squares = ([torch.zeros_like(weight) for weight in expected] for _ in range(2))
    for step in range(1, 4):
        for (key, weight), ours, mean, square in zip(model.named_parameters(), expected, means, squares, strict=True):
            weight.grad = torch.randn_like(weight)
            of_matrix = decay * (weight.dim() > 1 and ".layers." in key)
            # Adam's decay is a part of the gradient (Kingma & Ba 2015), AdamW's is not (Loshchilov & Hutter 2019).
            gradient = weight.grad + of_matrix * ours if name == "adam" else weight.grad
            mean.mul_(first).add_((1 - first) * gradient)
            square.mul_(second).add_((1 - second) * gradient**2)
            change = (mean / (1 - first**step)) / ((square / (1 - second**step)).sqrt() + 1e-8)
            ours -= rate * (change + (of_matrix * ours if name == "adamw" else 0))
        optimizer.step()
    torch.testing.assert_close([*model.parameters()], expected)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_no_optimizer_divides_by_the_scale_of_fp16_after_the_gradient_was_clipped(name: str) -> None:
    for precision, unscales in (("16-mixed", False), ("bf16-mixed", True)):
        optimizer = OPTIMIZERS[name](small_model(), 1e-2, (0.9, 0.98), 0.1, can_be_fused(precision))
        assert getattr(optimizer, "_step_supports_amp_scaling", False) == unscales  # torch's GradScaler asks for this


def test_muon_updates_the_matrices_of_layers_and_adamw_the_rest() -> None:
    (ours, loss), (theirs, their_loss) = model_and_loss(), model_and_loss()
    optimizer = OPTIMIZERS["muon"](ours, 1e-2, (0.9, 0.98), 0.1, False)
    hidden, rest = [], []
    for name, weight in theirs.named_parameters():
        (hidden if weight.dim() > 1 and ".layers." in name else rest).append(weight)
    assert len(hidden) == len([one for one in theirs.modules() if isinstance(one, torch.nn.Linear)]) - 1
    muon = torch.optim.Muon(hidden, 1e-2, 0.1, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(rest, 1e-2, (0.9, 0.98), weight_decay=0.0)
    for _ in range(3):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        muon.zero_grad()
        adamw.zero_grad()
        their_loss().backward()
        muon.step()
        adamw.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_muon_goes_on_exactly_from_a_saved_state() -> None:
    (one, loss), (other, other_loss) = model_and_loss(), model_and_loss()

    def steps(optimizer: torch.optim.Optimizer, value: Callable[[], Tensor], count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            value().backward()
            optimizer.step()

    uninterrupted, interrupted = (OPTIMIZERS["muon"](model, 1e-2, (0.9, 0.98), 0.1, True) for model in (one, other))
    steps(uninterrupted, loss, 4)
    steps(interrupted, other_loss, 2)
    resumed = OPTIMIZERS["muon"](other, 1e-2, (0.9, 0.98), 0.1, True)
    resumed.load_state_dict(interrupted.state_dict())
    steps(resumed, other_loss, 2)
    for weight, same in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(weight, same)


def test_a_warm_up_longer_than_a_third_of_a_run_gives_a_notice() -> None:
    assert warmup_note(400, 2500) is None
    assert warmup_note(1, 2) is None, "no less is possible"
    note = warmup_note(400, 500)
    assert note is not None
    assert note.startswith("training.warmup_steps=400 is more than a third of 500 steps")
    assert note.endswith("training.warmup_steps=50 is usual")
