"""Additive scores computed in blocks compared with all at once: values and gradients."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.kernels import additive


@pytest.mark.parametrize("block", [1, 3 * 7 * 5 * 2, 3 * 7 * 5 * 11, 10**6])  # one query, two, a sentence, all
def test_blocks_change_neither_scores_nor_gradients(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    shapes = [(2, 3, 11, 5), (2, 3, 7, 5), (3, 5)]
    ours = [torch.randn(shape, requires_grad=True) for shape in shapes]
    theirs = [tensor.detach().clone().requires_grad_() for tensor in ours]
    monkeypatch.setattr(additive, "BLOCK", block)
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


def test_no_tensor_is_larger_than_a_block_and_only_the_inputs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Largest(TorchDispatchMode):
        entries = 0

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):  # type: ignore[no-untyped-def]
            result = function(*arguments, **(keywords or {}))
            if isinstance(result, torch.Tensor):
                Largest.entries = max(Largest.entries, result.numel())
            return result

    queries, keys = torch.randn(2, 3, 64, 16, requires_grad=True), torch.randn(2, 3, 50, 16, requires_grad=True)
    weight, kept = torch.randn(3, 16, requires_grad=True), []
    monkeypatch.setattr(additive, "BLOCK", 4 * keys.numel())
    with Largest(), torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        additive.additive_scores(queries, keys, weight).sum().backward()
    # All pairs at once would be 64 × 4,800 = 307,200 entries.
    assert Largest.entries <= additive.BLOCK
    assert all(tensor.numel() <= keys.numel() * 4 for tensor in kept)
