"""How far two predictions of the same words lie apart, and the gradient of it at once."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.training.cross_entropy import in_pieces

Divergence = Literal["kullback_leibler", "jensen_shannon"]


def divergence(
    first: Float[Tensor, "positions vocabulary"], second: Float[Tensor, "positions vocabulary"], kind: Divergence
) -> tuple[Float[Tensor, " positions"], Float[Tensor, "2 positions vocabulary"]]:
    """(KL(p‖q) + KL(q‖p)) / 2 in nats, or the Jensen-Shannon divergence (KL(p‖m) + KL(q‖m)) / 2 with m = (p + q) / 2,
    where p and q are the softmax of the logits given; and its gradient by both."""
    losses, gradient = torch.empty(len(first), device=first.device), first.new_empty(2, *first.shape)
    for one, other, loss, of_one, of_other in in_pieces(first, second, losses, *gradient):
        log_p, log_q = one.float().log_softmax(dim=-1), other.float().log_softmax(dim=-1)
        p, q = log_p.exp(), log_q.exp()
        # What p and q are weighed with: the divergence is Σ (p a + q b) / 2.
        if kind == "kullback_leibler":
            a, b, rest = log_p - log_q, log_q - log_p, p - q
        else:
            log_m = torch.logaddexp(log_p, log_q) - math.log(2)
            a, b, rest = log_p - log_m, log_q - log_m, torch.zeros_like(p)
        pa, qb = p * a, q * b
        for_p, for_q = pa.sum(dim=-1, keepdim=True), qb.sum(dim=-1, keepdim=True)
        loss.copy_((for_p + for_q).squeeze(1) / 2)
        # Through softmax: p ∘ (a − Σ p a); of the two Kullback-Leibler terms, p's in the other's remains: p − q.
        of_one.copy_(pa.sub_(p * for_p).add_(rest).mul_(0.5))
        of_other.copy_(qb.sub_(q * for_q).sub_(rest).mul_(0.5))
    return losses, gradient
