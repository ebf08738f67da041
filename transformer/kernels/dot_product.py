"""softmax(scale · Q Kᵀ + bias) V, over the visible keys, as one operation of torch, and the softmax of all others."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

# How many float32 numbers a CPU computes at once (AVX-512). With fewer than MANY_SCORES scores, filling the rows up to
# that costs more than it saves.
CPU_VECTOR, MANY_SCORES = 16, 1024


def softmax(scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
    """scores.softmax(-1), in the scores' own type.

    On a CPU torch's softmax is several times slower in two cases. In bf16: so here it is computed in float32. And with
    fewer keys than a vector holds: so here scores of −∞, which get no weight, fill that up.
    """
    keys = scores.size(-1)
    if scores.device.type != "cpu" or torch.compiler.is_compiling() or scores.numel() < MANY_SCORES:
        return scores.softmax(dim=-1)
    if keys < CPU_VECTOR:
        scores = functional.pad(scores, (0, CPU_VECTOR - keys), value=-math.inf)
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))[..., :keys].to(scores.dtype)


def uses_torch(states: Tensor) -> bool:
    """Whether torch's scaled_dot_product_attention is used: always on a GPU and in compiled training, where it chooses
    a fused kernel unless machine.attention=math. On a CPU the written-out equation is faster: torch's is used only in
    training with machine.attention=fused (`configure_torch` sets torch's flag)."""
    if states.device.type != "cpu" or torch.compiler.is_compiling():
        return True  # asked first: torch.compile cannot follow the next line, and would split its graph at every layer
    return torch.is_grad_enabled() and torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call,no-any-return]


def dot_product_attention(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads keys head_dim"],
    values: Float[Tensor, "batch heads keys value_dim"],
    visible: Bool[Tensor, "#batch #heads #queries keys"] | None,
    position_bias: Float[Tensor, "#batch heads #queries keys"] | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """softmax(scale · Q Kᵀ + bias) V over the visible keys, where `uses_torch`."""
    mask = visible
    if position_bias is not None:  # bias and mask in one tensor, as torch's kernel takes them
        bias = position_bias.to(queries.dtype)
        mask = bias if visible is None else torch.where(visible, bias, -math.inf)
    return functional.scaled_dot_product_attention(queries, keys, values, mask, dropout, scale=scale)
