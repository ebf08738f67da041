"""Our cross-entropy against torch's, value and gradient."""

import pytest
import torch
from torch.nn import functional

from transformer.kernels.cross_entropy import smoothed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("positions", [0, 1, 64, 131])
def test_loss_and_gradient_equal_torchs(smoothing: float, positions: int) -> None:
    labels = torch.randint(0, 37, (positions,))
    ours = (3 * torch.randn(positions, 37)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    total = smoothed_cross_entropy(ours, labels, smoothing)
    expected = functional.cross_entropy(theirs, labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(total, expected, rtol=1e-5, atol=1e-4)
    (total * 1.7).backward()
    (expected * 1.7).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits, labels = torch.randn(500, 37).bfloat16(), torch.randint(0, 37, (500,))
    expected = functional.cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, 0.1), expected, rtol=1e-6, atol=1e-3)


def test_the_logits_stay_as_they_were() -> None:
    given, labels = torch.randn(70, 37), torch.randint(0, 37, (70,))
    logits = given.clone().requires_grad_()
    smoothed_cross_entropy(logits, labels, 0.1).backward()
    assert torch.equal(logits, given)
