"""softmax(scale · Q Kᵀ + bias) V, over the visible keys, as one operation of torch; and a softmax for all other
cases."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

# A CPU computes this number of float32 values at once (AVX-512). With fewer than MANY_SCORES scores, padding the rows
# to this width takes more time than it saves.
CPU_VECTOR, MANY_SCORES = 16, 1024


def softmax(scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
    """scores.softmax(-1), in the scores' own type.

    On a CPU torch's softmax is several times slower in two cases: in bf16, so it is computed in float32 here; and with
    fewer keys than CPU_VECTOR, so the rows are padded with scores of −∞, which get no weight.
    """
    keys = scores.size(-1)
    if scores.device.type != "cpu" or torch.compiler.is_compiling() or scores.numel() < MANY_SCORES:
        return scores.softmax(dim=-1)
    if keys < CPU_VECTOR:
        scores = functional.pad(scores, (0, CPU_VECTOR - keys), value=-math.inf)
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))[..., :keys].to(scores.dtype)


def uses_torch(states: Tensor) -> bool:
    """Whether torch's scaled_dot_product_attention is used. On a GPU and in compiled training it always is, with a
    fused kernel unless machine.attention=math. On a CPU the written-out equation is faster: torch's function is used
    only in training with machine.attention=fused (`configure_torch` sets torch's flag)."""
    if states.device.type != "cpu" or torch.compiler.is_compiling():
        return True  # checked first: torch.compile cannot trace the next line and would split its graph at every layer
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
    """softmax(scale · Q Kᵀ + bias) V over the visible keys, by torch's function (see `uses_torch`)."""
    mask = visible
    if position_bias is not None:  # torch's kernel takes bias and mask in one tensor
        bias = position_bias.to(queries.dtype)
        mask = bias if visible is None else torch.where(visible, bias, -math.inf)
    return functional.scaled_dot_product_attention(queries, keys, values, mask, dropout, scale=scale)
