"""Additive scores in blocks against all at once, values and gradients."""

import pytest
import torch

from transformer.kernels import additive


def test_blocks_change_neither_scores_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(2, 3, 11, 5), (2, 3, 7, 5), (3, 5)]
    ours = [torch.randn(shape, requires_grad=True) for shape in shapes]
    theirs = [tensor.detach().clone().requires_grad_() for tensor in ours]
    monkeypatch.setattr(additive, "BLOCK", 2 * ours[1].numel())  # two queries a block
    scores = additive.additive_scores(*ours)
    q, k, v = theirs
    expected = ((q[:, :, :, None] + k[:, :, None]).tanh() * v[:, None, None]).sum(-1)
    torch.testing.assert_close(scores, expected)
    towards = torch.randn_like(scores)
    (scores * towards).sum().backward()
    (expected * towards).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(additive.additive_scores(*ours), expected)
