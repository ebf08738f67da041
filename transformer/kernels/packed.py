"""act(x Wᵀ + b), by weights that are packed once for translating on a CPU.

torch multiplies float32 by MKL, which on some processors stays far below what they can do (docs/speed.md). oneDNN is
faster, in the same precision, most of all once a weight lies in the order in which its kernels read it. A row of a
float32 result is then the same, to the last bit, whatever other rows are computed with it. bfloat16 is multiplied by
oneDNN anyway, which for a few rows spends more time on reordering the weight than on multiplying.
"""

import functools
import platform
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from transformer.device import cpu_features, fast_instructions

# Activations that oneDNN applies while it writes a result: our name → its name and algorithm.
FUSED_ACTIVATIONS = {"none": ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "silu": ("swish", "")}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
Input = Float[Tensor, "*rows inputs"]
Output = Float[Tensor, "*rows outputs"]


class PackedMatmul(NamedTuple):
    """x Wᵀ + b, with a packed W, and an activation in the same operation."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Input, activation: str = "none") -> Output:
        name, algorithm = FUSED_ACTIVATIONS[activation]
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, name, [], algorithm)  # type: ignore[no-any-return]


def pack_weight(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach())  # type: ignore[no-any-return]


class PackedLinear(nn.Linear):
    """`nn.Linear` with the same parameters, which multiplies by a packed copy of its weight, and applies an activation
    in the same operation.

    With gradients, under autocast, and once the weight is changed (but not through `weight.data`, which torch does not
    count), moved or converted, it is `nn.Linear` again.
    """

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        nn.Module.__init__(self)
        self.activation = activation
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.training = linear.weight, linear.bias, linear.training
        self._packed: PackedMatmul | None = PackedMatmul(pack_weight(linear.weight), linear.bias)
        self._packed_from = linear.weight.data_ptr(), linear.weight._version

    def packed_matmul(self) -> PackedMatmul | None:
        """The packed multiplication; None with gradients, under autocast, and once the weight has changed."""
        packed, weight = self._packed, self._parameters["weight"]
        if packed is None or weight is None or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return None
        return packed if (weight.data_ptr(), weight._version) == self._packed_from else None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_packed": None}  # a copy has weights of its own

    def forward(self, input: Tensor) -> Tensor:
        packed = self.packed_matmul()
        if packed is None or input.dtype != packed.weight.dtype:
            return ACTIVATIONS[self.activation](super().forward(input))
        return packed(input, self.activation)


class PackedProjections(nn.Module):
    """Several linear layers of the same states as one matrix multiplication, as long as their weights are those that
    were packed."""

    def __init__(self, *layers: PackedLinear) -> None:
        super().__init__()
        self._layers = layers  # a tuple: they are parts of another module
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        bias = None if biases[0] is None else torch.cat([one.detach() for one in biases])  # all have one, or none
        self._matmul = PackedMatmul(pack_weight(torch.cat([weight.detach() for weight in weights])), bias)
        self._widths = [len(weight) for weight in weights]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_matmul": None}  # a copy has weights of its own

    def forward(self, states: Tensor, *layers: nn.Module) -> Sequence[Tensor]:
        is_as_packed = layers == self._layers and None not in [layer.packed_matmul() for layer in self._layers]
        if is_as_packed and self._matmul is not None and states.dtype == self._matmul.weight.dtype:
            return torch.split(self._matmul(states), self._widths, dim=-1)
        return [layer(states) for layer in layers]


@functools.cache
def packed_types() -> list[torch.dtype]:
    """The types of weights that are packed on this processor."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return []  # on ARM this has not been tried
    return [torch.float32, *([torch.bfloat16] if "bf16" in fast_instructions(cpu_features()) else [])]


def packs(weight: Tensor) -> bool:
    """Whether a weight is packed on this processor."""
    # Weights made in inference mode do not count their changes.
    return weight.device.type == "cpu" and weight.dtype in packed_types() and not weight.is_inference()
