"""The losses of `training.loss`, summed, from the decoder's states, weight and bias of the projection to logits.

The logits (positions × vocabulary) would be by far the largest tensor of training. So logits and their gradient are
computed for a few positions at a time and then freed: all of them are never in memory together.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

# The number of positions that are projected to logits together, on a CPU and elsewhere.
CPU_POSITIONS, GPU_POSITIONS = 512, 16384
# The number of rows of logits that a CPU processes together: as float32 they fit into its cache.
CPU_ROWS = 64

# Takes logits (views × positions × vocabulary; R-Drop has 2 views of a batch, otherwise there is 1), which it may
# overwrite, and labels (positions); returns the loss at each position and its gradient with respect to the logits.
LogitsLoss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _in_row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Some rows of every tensor at a time on a CPU, all at once elsewhere."""
    rows = CPU_ROWS if tensors[0].device.type == "cpu" else max(1, len(tensors[0]))
    return zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


def cross_entropy_(
    logits: Float[Tensor, "positions vocabulary"], labels: Int[Tensor, " positions"], label_smoothing: float
) -> Float[Tensor, " positions"]:
    """training.loss.cross_entropy. Its gradient p − q is written over the logits, so it needs no further memory.

    Computed in float32 for logits of any type. Loss and gradient share their exponentials.
    """
    losses = torch.empty(len(logits), device=logits.device)
    for rows, label, loss in _in_row_blocks(logits, labels[:, None], losses):
        # The rows themselves if they are float32. Below, this tensor is overwritten step by step to save memory.
        x = rows.float()
        label_logit, mean, top = x.gather(1, label), x.mean(dim=-1), x.amax(dim=-1, keepdim=True)
        # Apple's GPU gets new memory: it is not tested there whether a softmax may overwrite its input.
        probabilities = torch.softmax(x, dim=-1, out=None if x.is_mps else x)
        # The largest probability is exp(top) / Σ exp, which is never too small for its logarithm.
        log_sum = top - probabilities.amax(dim=-1, keepdim=True).log()
        # −Σ q log p = log Σ exp − (1 − ε) logit of the label − ε mean of the logits
        loss.copy_((log_sum - (1 - label_smoothing) * label_logit).squeeze(1) - label_smoothing * mean)
        gradient = probabilities.sub_(label_smoothing / logits.size(-1))
        gradient.scatter_add_(1, label, torch.full_like(label_logit, label_smoothing - 1))
        rows.copy_(gradient)
    return losses


def symmetric_kl(
    first: Float[Tensor, "positions vocabulary"], second: Float[Tensor, "positions vocabulary"]
) -> tuple[Float[Tensor, " positions"], Float[Tensor, "2 positions vocabulary"]]:
    """training.loss.symmetric_kl, and its gradient with respect to both logits."""
    losses, gradient = torch.empty(len(first), device=first.device), first.new_empty(2, *first.shape)
    for rows, other_rows, loss, rows_gradient, other_gradient in _in_row_blocks(first, second, losses, *gradient):
        log_p, log_q = rows.float().log_softmax(dim=-1), other_rows.float().log_softmax(dim=-1)
        p, q = log_p.exp(), log_q.exp()
        p_terms, q_terms = p * (log_p - log_q), q * (log_q - log_p)
        kl_pq, kl_qp = p_terms.sum(dim=-1, keepdim=True), q_terms.sum(dim=-1, keepdim=True)
        loss.copy_((kl_pq + kl_qp).squeeze(1) / 2)
        # The gradient of KL(p‖q) for the first logits is p ∘ (log p/q − KL(p‖q)), that of KL(q‖p) is p − q.
        rows_gradient.copy_(p_terms.sub_(p * kl_pq).add_(p - q).mul_(0.5))
        other_gradient.copy_(q_terms.sub_(q * kl_qp).sub_(p - q).mul_(0.5))
    return losses, gradient


class _ProjectedLoss(torch.autograd.Function):
    """Projects some positions, computes their loss and gradient, and frees their logits before the next ones.

    The gradients of states, weight and bias are complete after forward; backward only scales them.
    """

    @staticmethod
    def forward(
        context: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        ignore_index: int,
        logits_loss: LogitsLoss,
        needs_gradient: bool,
    ) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        projection, size = weight.to(dtype), CPU_POSITIONS if device == "cpu" else GPU_POSITIONS
        counted = labels != ignore_index
        total = torch.zeros((), device=states.device)
        states_gradient, weight_gradient = torch.empty_like(states), torch.zeros_like(weight)
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        for start in range(0, states.size(1), size):
            positions = slice(start, start + size)
            block, mask = states[:, positions].to(dtype), counted[positions, None].to(dtype)
            # Flattened to two dimensions: multiplying three-dimensional tensors is slower.
            logits = (block.flatten(0, 1) @ projection.T).view(*block.shape[:2], -1)
            if bias is not None:
                logits += bias
            losses, gradient = logits_loss(logits, labels[positions])
            total += (losses * counted[positions]).sum()
            if not needs_gradient:  # in a validation by Lightning's Trainer
                continue
            gradient = gradient.flatten(0, 1)
            # The mask is applied to the small gradients (dim wide), not to the large one (vocabulary wide).
            states_gradient[:, positions] = (gradient @ projection).view_as(block) * mask
            weight_gradient += gradient.T @ (block * mask).flatten(0, 1)
            if bias_gradient is not None:
                bias_gradient += gradient.T @ mask.expand(len(block), -1, -1).flatten()
        context.save_for_backward(states_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_inputs = [None if saved is None else saved * gradients[0] for saved in context.saved_tensors]
        return *of_inputs, None, None, None, None


def projected_loss(
    states: Float[Tensor, "views batch target dim"],
    weight: Float[Tensor, "vocabulary dim"],
    labels: Int[Tensor, "batch target"],
    ignore_index: int,
    logits_loss: LogitsLoss,
    bias: Float[Tensor, " vocabulary"] | None,
) -> Float[Tensor, ""]:
    """The `logits_loss` of the logits states · weightᵀ + bias, summed over the labels that are not `ignore_index`."""
    rows, flat_labels, needs_gradient = states.flatten(1, 2), labels.flatten(), torch.is_grad_enabled()
    total: Tensor = _ProjectedLoss.apply(rows, weight, bias, flat_labels, ignore_index, logits_loss, needs_gradient)  # type: ignore[no-untyped-call]
    return total


def linear_cross_entropy(
    states: Float[Tensor, "batch target dim"],
    weight: Float[Tensor, "vocabulary dim"],
    labels: Int[Tensor, "batch target"],
    label_smoothing: float,
    ignore_index: int,
    bias: Float[Tensor, " vocabulary"] | None = None,
) -> Float[Tensor, ""]:
    """Σ cross_entropy(states · weightᵀ + bias, labels) over the labels that are not `ignore_index`."""

    def loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        losses = cross_entropy_(logits[0], labels, label_smoothing)
        gradient = logits  # overwritten in place
        return losses, gradient

    return projected_loss(states[None], weight, labels, ignore_index, loss, bias)


def r_drop_loss(
    states: Float[Tensor, "2 batch target dim"],
    weight: Float[Tensor, "vocabulary dim"],
    labels: Int[Tensor, "batch target"],
    label_smoothing: float,
    alpha: float,
    ignore_index: int,
    bias: Float[Tensor, " vocabulary"] | None = None,
) -> Float[Tensor, ""]:
    """Σ r_drop(states · weightᵀ + bias, labels) over the labels that are not `ignore_index`."""

    def loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        divergence, divergence_gradient = symmetric_kl(*logits)  # first, before the logits are overwritten
        losses = cross_entropy_(logits.view(-1, logits.size(-1)), labels.repeat(2), label_smoothing)
        gradient = logits  # overwritten in place
        return (
            (losses.view(2, -1).sum(dim=0) + alpha * divergence) / 2,
            (gradient + alpha * divergence_gradient) / 2,
        )

    return projected_loss(states, weight, labels, ignore_index, loss, bias)
