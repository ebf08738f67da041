"""The loss: label-smoothed cross-entropy, and R-Drop if it is set.

These are the equations for one position. Training calls `kernels.linear_cross_entropy`, which sums them over a batch
without keeping all its logits in memory; tests compare the two.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "positions vocabulary"], labels: Int[Tensor, " positions"], label_smoothing: float
) -> Float[Tensor, " positions"]:
    """H(q, p) = −Σ q log p in nats, with p = softmax(logits) and q = (1 − ε) one-hot(label) + ε / V (Szegedy et al.
    2016, section 7; Vaswani et al. 2017, section 5.4)."""
    log_p = logits.log_softmax(dim=-1)
    of_label = log_p.gather(1, labels[:, None]).squeeze(1)
    return -(1 - label_smoothing) * of_label - label_smoothing * log_p.mean(dim=-1)


def symmetric_kl(
    first: Float[Tensor, "positions vocabulary"], second: Float[Tensor, "positions vocabulary"]
) -> Float[Tensor, " positions"]:
    """(KL(p‖q) + KL(q‖p)) / 2 in nats, with p and q the softmax of the two logits (Liang et al. 2021, eq. 2)."""
    log_p, log_q = first.log_softmax(dim=-1), second.log_softmax(dim=-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1) / 2


def r_drop(
    logits: Float[Tensor, "2 positions vocabulary"],
    labels: Int[Tensor, " positions"],
    label_smoothing: float,
    alpha: float,
) -> Float[Tensor, " positions"]:
    """(CE(p) + CE(q) + α (KL(p‖q) + KL(q‖p)) / 2) / 2: p and q are the predictions of one batch with two different
    dropout masks, and should agree (R-Drop, Liang et al. 2021, eq. 4).

    The paper adds the two losses; here they are averaged, so that the loss has the same size as without R-Drop.
    """
    losses = torch.stack([cross_entropy(one, labels, label_smoothing) for one in logits])
    return (losses.sum(dim=0) + alpha * symmetric_kl(*logits)) / 2
