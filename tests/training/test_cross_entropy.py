"""Our cross-entropy against torch's, value and gradient."""

import pytest
import torch
from torch.nn import functional

from transformer.training.cross_entropy import smoothed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("positions", [0, 1, 64, 131])
def test_losses_and_gradient_equal_torchs(smoothing: float, positions: int) -> None:
    labels, logits = torch.randint(0, 37, (positions,)), 3 * torch.randn(positions, 37)
    theirs = logits.clone().requires_grad_()
    expected = functional.cross_entropy(theirs, labels, reduction="none", label_smoothing=smoothing)
    expected.sum().backward()
    losses, gradient = smoothed_cross_entropy(logits, labels, smoothing)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, theirs.grad)


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits, labels = torch.randn(500, 37).bfloat16(), torch.randint(0, 37, (500,))
    expected = functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=0.1)
    losses, gradient = smoothed_cross_entropy(logits, labels, 0.1)
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=1e-5)
    assert gradient.dtype == torch.bfloat16


def test_the_logits_stay_as_they_were() -> None:
    given, labels = torch.randn(70, 37), torch.randint(0, 37, (70,))
    logits = given.clone()
    smoothed_cross_entropy(logits, labels, 0.1)
    assert torch.equal(logits, given)
