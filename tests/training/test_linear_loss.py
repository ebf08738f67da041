"""The loss that never holds all logits against torch's own, which does."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from transformer.training import linear_loss
from transformer.training.linear_loss import cross_entropy_loss, projected_loss


def given(batch: int, target: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    real = torch.rand(batch, target) < 0.8
    states, weight = torch.randn(batch, target, 16), torch.randn(37, 16)
    return states.requires_grad_(), weight.requires_grad_(), torch.randint(0, 37, (batch, target)), real


def by_torch(states: Tensor, weight: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    logits = functional.linear(states, weight)[real].float()
    return functional.cross_entropy(logits, labels[real], reduction="sum", label_smoothing=0.1)


@pytest.mark.parametrize(("batch", "target"), [(1, 1), (5, 8), (9, 13)])
def test_loss_and_gradients_equal_torchs_whatever_the_pieces(
    batch: int, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_loss, "CPU_POSITIONS", 40)  # one piece, a whole one, three with a rest
    states, weight, labels, real = given(batch, target)
    expected = by_torch(states, weight, labels, real)
    wanted = torch.autograd.grad(1.7 * expected, (states, weight))
    loss = cross_entropy_loss(states, weight, labels, real, 0.1)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-4)
    for ours, theirs in zip(torch.autograd.grad(1.7 * loss, (states, weight)), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_under_autocast_products_are_in_half_precision_and_gradients_in_the_weights_own() -> None:
    states, weight, labels, real = given(9, 13)
    with torch.autocast("cpu", torch.bfloat16):
        expected = by_torch(states, weight, labels, real)
        loss = cross_entropy_loss(states, weight, labels, real, 0.1)
    assert loss.item() != cross_entropy_loss(states, weight, labels, real, 0.1).item()
    torch.testing.assert_close(loss, expected, rtol=1e-3, atol=0.0)
    wanted = torch.autograd.grad(expected, (states, weight))
    for ours, theirs in zip(torch.autograd.grad(loss, (states, weight)), wanted, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.01 * theirs.norm()


def test_a_loss_of_several_views_sees_all_of_a_position_together() -> None:
    states, weight, labels, real = torch.randn(2, 5, 8, 16, requires_grad=True), torch.randn(37, 16), *given(5, 8)[2:]

    def distance(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        first, second = logits
        return (first - second).square().sum(dim=-1), 2 * torch.stack([first - second, second - first])

    loss = projected_loss(states, weight, labels, real, distance)
    first, second = functional.linear(states, weight)
    expected = (first - second)[real].square().sum()
    torch.testing.assert_close(loss, expected)
    [ours], [theirs] = (torch.autograd.grad(one, states) for one in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)
