"""How far two predictions of the same words lie apart, without several copies of their logits."""

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

# Rows turned to float32 at a time, as for the cross-entropy.
ROWS = 64
Divergence = Literal["kullback_leibler", "jensen_shannon"]


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(torch.split(tensor, ROWS) for tensor in tensors), strict=True)


def _parts(first: Tensor, second: Tensor, kind: Divergence) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The probabilities p and q, and what each is weighed with: the divergence is Σ (p a + q b) / 2."""
    log_p, log_q = first.float().log_softmax(dim=-1), second.float().log_softmax(dim=-1)
    p, q = log_p.exp(), log_q.exp()
    if kind == "kullback_leibler":
        a = log_p - log_q
        return p, q, a, -a
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return p, q, log_p - log_m, log_q - log_m


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, first: Tensor, second: Tensor, kind: Divergence) -> Tensor:
        total = torch.zeros((), device=first.device)
        for one, other in _pieces(first, second):
            p, q, a, b = _parts(one, other, kind)
            total += ((p * a).sum() + (q * b).sum()) / 2
        context.save_for_backward(first, second)
        context.kind = kind
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        first, second = context.saved_tensors
        of_first, of_second = torch.empty_like(first), torch.empty_like(second)
        for one, other, out_first, out_second in _pieces(first, second, of_first, of_second):
            p, q, a, b = _parts(one, other, context.kind)
            # Through softmax: p ∘ (a − Σ p a); of the two Kullback-Leibler terms, p's in the other's remains: p − q.
            rest = p - q if context.kind == "kullback_leibler" else torch.zeros_like(p)
            half = gradients[0] / 2
            out_first.copy_((p * (a - (p * a).sum(dim=-1, keepdim=True)) + rest) * half)
            out_second.copy_((q * (b - (q * b).sum(dim=-1, keepdim=True)) - rest) * half)
        return of_first, of_second, None


def divergence(
    first: Float[Tensor, "positions vocabulary"], second: Float[Tensor, "positions vocabulary"], kind: Divergence
) -> Float[Tensor, ""]:
    """The sum over positions, in nats, of (KL(p‖q) + KL(q‖p)) / 2, or of the Jensen-Shannon divergence
    (KL(p‖m) + KL(q‖m)) / 2 with m = (p + q) / 2, where p and q are the softmax of the logits given."""
    total: Tensor = _Divergence.apply(first, second, kind)  # type: ignore[no-untyped-call]
    return total
