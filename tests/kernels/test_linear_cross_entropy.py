"""The loss, computed in pieces, compared with torch's own functions on all logits at once."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from transformer.kernels import linear_cross_entropy as loss
from transformer.kernels.linear_cross_entropy import cross_entropy_, linear_cross_entropy, r_drop_loss, symmetric_kl
from transformer.training import loss as equations

PAD = 0


def torch_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(
        logits.flatten(0, -2).float(), labels.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )


def torch_symmetric_kl(first: Tensor, second: Tensor) -> Tensor:
    log_p, log_q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    kl_pq = functional.kl_div(log_q, log_p, reduction="sum", log_target=True)
    return (kl_pq + functional.kl_div(log_p, log_q, reduction="sum", log_target=True)) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("positions", [0, 1, 64, 131])
def test_cross_entropy_and_its_gradient_equal_torchs(smoothing: float, positions: int) -> None:
    labels, logits = torch.randint(0, 37, (positions,)), (3 * torch.randn(positions, 37)).requires_grad_()
    expected = functional.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
    expected.sum().backward()
    overwritten = logits.detach().clone()
    losses = cross_entropy_(overwritten, labels, smoothing)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(overwritten, logits.grad)


def test_cross_entropy_of_half_precision_logits_is_computed_in_float32() -> None:
    logits, labels = torch.randn(500, 37).bfloat16(), torch.randint(0, 37, (500,))
    expected = functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(cross_entropy_(logits, labels, 0.1), expected, rtol=1e-6, atol=1e-5)


def test_the_loss_of_logits_too_large_for_an_exponential_equals_torchs() -> None:
    labels, logits = torch.randint(0, 37, (70,)), 300 * torch.randn(70, 37)
    expected = functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(cross_entropy_(logits, labels, 0.1), expected, rtol=1e-5, atol=1e-3)
    assert logits.isfinite().all(), "the gradient"


@pytest.mark.parametrize("positions", [0, 1, 131])
def test_symmetric_kl_and_its_gradients_equal_torchs(positions: int) -> None:
    first, second = ((2 * torch.randn(positions, 37)).requires_grad_() for _ in range(2))
    expected = torch_symmetric_kl(first, second)
    expected.backward()
    losses, gradients = symmetric_kl(first.detach(), second.detach())
    torch.testing.assert_close(losses.sum(), expected, rtol=1e-5, atol=1e-5)
    for ours, logits in zip(gradients, (first, second), strict=True):
        torch.testing.assert_close(ours, logits.grad, rtol=1e-4, atol=1e-6)


def test_symmetric_kl_of_equal_predictions_is_zero_and_has_no_gradient() -> None:
    logits = torch.randn(70, 37)
    losses, gradients = symmetric_kl(logits, logits + 3.0)  # adding a constant does not change the softmax
    assert losses.abs().max() < 1e-5
    assert gradients.abs().max() < 1e-6


def states_weight_labels(views: int, batch: int, target: int) -> tuple[Tensor, Tensor, Tensor]:
    """Labels are padded at the end of each row, as in a batch."""
    labels = torch.randint(1, 37, (batch, target))
    labels[torch.arange(target) >= torch.randint(1, target + 1, (batch, 1))] = PAD
    states, weight = torch.randn(views, batch, target, 16), torch.randn(37, 16)
    return states.requires_grad_(), weight.requires_grad_(), labels


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("batch", "target"), [(1, 1), (5, 8), (9, 13)])
def test_linear_cross_entropy_equals_torchs_however_many_pieces_it_takes(
    batch: int, target: int, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_POSITIONS", 40)  # less than a piece, exactly one, three and a rest
    states, weight, labels = states_weight_labels(1, batch, target)
    bias = torch.randn(37, requires_grad=True) if has_bias else None
    expected = torch_cross_entropy(functional.linear(states[0], weight, bias), labels)
    actual = linear_cross_entropy(states[0], weight, labels, 0.1, PAD, bias)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-4)
    parameters = (states, weight) if bias is None else (states, weight, bias)
    gradients = (torch.autograd.grad(1.7 * value, parameters) for value in (actual, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_under_autocast_logits_are_in_half_precision_and_gradients_are_not() -> None:
    states, weight, labels = states_weight_labels(1, 9, 13)
    with torch.autocast("cpu", torch.bfloat16):
        expected = torch_cross_entropy(functional.linear(states[0], weight), labels)
        actual = linear_cross_entropy(states[0], weight, labels, 0.1, ignore_index=PAD)
    assert actual.item() != linear_cross_entropy(states[0], weight, labels, 0.1, ignore_index=PAD).item()
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=0.0)
    gradients = (torch.autograd.grad(value, (states, weight)) for value in (actual, expected))
    for ours, theirs in zip(*gradients, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.01 * theirs.norm()


@pytest.mark.parametrize("has_bias", [False, True])
def test_r_drop_is_half_of_equation_4_of_the_paper(monkeypatch: pytest.MonkeyPatch, has_bias: bool) -> None:
    monkeypatch.setattr(loss, "CPU_POSITIONS", 40)
    states, weight, labels = states_weight_labels(2, 9, 13)
    bias = torch.randn(37, requires_grad=True) if has_bias else None
    first, second = functional.linear(states, weight, bias)
    both = torch_cross_entropy(first, labels) + torch_cross_entropy(second, labels)
    expected = (both + 5.0 * torch_symmetric_kl(first[labels != PAD], second[labels != PAD])) / 2
    actual = r_drop_loss(states, weight, labels, 0.1, 5.0, PAD, bias)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-4)
    parameters = (states, weight) if bias is None else (states, weight, bias)
    gradients = (torch.autograd.grad(value, parameters) for value in (actual, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_r_drop_of_two_equal_views_is_the_cross_entropy_of_one() -> None:
    states, weight, labels = states_weight_labels(1, 5, 8)
    expected = linear_cross_entropy(states[0], weight, labels, 0.1, ignore_index=PAD)
    actual = r_drop_loss(states.expand(2, -1, -1, -1), weight, labels, 0.1, 5.0, ignore_index=PAD)
    torch.testing.assert_close(actual, expected)
    gradients = (torch.autograd.grad(value, (states, weight)) for value in (actual, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_kernels_sum_the_equations_of_training(smoothing: float) -> None:
    states, weight, bias = torch.randn(2, 3, 5, 8), torch.randn(17, 8), torch.randn(17)
    labels = torch.randint(0, 17, (3, 5))
    labels[0, 3:] = PAD
    real, logits = labels.flatten() != PAD, (states @ weight.T + bias).flatten(1, 2)
    expected = equations.cross_entropy(logits[0], labels.flatten(), smoothing)[real].sum()
    torch.testing.assert_close(linear_cross_entropy(states[0], weight, labels, smoothing, PAD, bias), expected)
    expected = equations.r_drop(logits, labels.flatten(), smoothing, 5.0)[real].sum()
    torch.testing.assert_close(r_drop_loss(states, weight, labels, smoothing, 5.0, PAD, bias), expected)
