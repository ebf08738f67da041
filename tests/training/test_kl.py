"""Our divergences against torch's kl_div, value and gradient."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from transformer.training.kl import Divergence, divergence


def by_definition(first: Tensor, second: Tensor, kind: Divergence) -> Tensor:
    p, q = first.softmax(dim=-1), second.softmax(dim=-1)
    others = (q, p) if kind == "kullback_leibler" else ((p + q) / 2, (p + q) / 2)
    return sum(functional.kl_div(m.log(), one, reduction="sum") for one, m in zip((p, q), others, strict=True)) / 2  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["kullback_leibler", "jensen_shannon"])
@pytest.mark.parametrize("positions", [0, 1, 131])
def test_value_and_gradients_are_those_of_the_definition(kind: Divergence, positions: int) -> None:
    theirs = [(2 * torch.randn(positions, 37)).requires_grad_() for _ in range(2)]
    expected = by_definition(*theirs, kind)
    expected.backward()
    losses, gradients = divergence(*(logits.detach() for logits in theirs), kind)
    torch.testing.assert_close(losses.sum(), expected, rtol=1e-5, atol=1e-5)
    for ours, other in zip(gradients, theirs, strict=True):
        torch.testing.assert_close(ours, other.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["kullback_leibler", "jensen_shannon"])
def test_the_same_prediction_is_at_no_distance_and_pulled_nowhere(kind: Divergence) -> None:
    logits = torch.randn(70, 37)
    losses, gradients = divergence(logits, logits + 3.0, kind)  # softmax knows no constant
    assert losses.abs().max() < 1e-5
    assert gradients.abs().max() < 1e-6
