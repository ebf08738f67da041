"""act(x Wᵀ + b), with weights that are packed once, for translating on a CPU.

torch multiplies float32 with MKL, which on some processors is far from their speed (docs/experiments.md). oneDNN is
faster in the same precision, above all if a weight is stored in the order in which its kernels read it. A row of a
float32 result is then the same, to the last bit, independent of the other rows. bfloat16 is multiplied by oneDNN
anyway; without packing, a few rows need more time for reordering the weight than for multiplying.
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

# Activations that oneDNN applies while it writes a result: our name → oneDNN's name and algorithm.
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


def _state(*parameters: Tensor | None) -> list[tuple[int, int]]:
    """A value that changes if one of the parameters is changed in place (but not through `.data`, which torch does not
    count), replaced, moved or converted."""
    return [(one.data_ptr(), one._version) for one in parameters if one is not None]


def _suits(packed: PackedMatmul, x: Tensor) -> bool:
    """Whether a packed multiplication may replace torch's: it keeps no gradient and does not convert types."""
    return x.dtype == packed.weight.dtype and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


class PackedLinear(nn.Linear):
    """`nn.Linear` with the same parameters, which multiplies with a packed copy of its weight, and applies an
    activation in the same operation.

    With gradients, under autocast, and if its parameters have changed (`_state`), it works like `nn.Linear`.
    """

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        nn.Module.__init__(self)
        self.activation = activation
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.training = linear.weight, linear.bias, linear.training
        self._packed: PackedMatmul | None = PackedMatmul(pack_weight(linear.weight), linear.bias)
        self._packed_from = _state(linear.weight, linear.bias)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_packed": None}  # a copy has its own weights

    def forward(self, input: Tensor) -> Tensor:
        packed = self._packed
        if packed and _suits(packed, input) and _state(self.weight, self.bias) == self._packed_from:
            return packed(input, self.activation)
        return ACTIVATIONS[self.activation](super().forward(input))


class PackedProjections(nn.Module):
    """Several linear layers of the same states as one matrix multiplication, while their parameters are unchanged."""

    def __init__(self, *layers: nn.Linear) -> None:
        super().__init__()
        self._packed_from = self._state_of(layers)
        weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
        bias = None if biases[0] is None else torch.cat([one.detach() for one in biases])  # all have one or none has
        self._matmul = PackedMatmul(pack_weight(torch.cat([weight.detach() for weight in weights])), bias)
        self._widths = [len(weight) for weight in weights]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_matmul": None}  # a copy has its own weights

    def forward(self, states: Tensor, *layers: nn.Module) -> Sequence[Tensor]:
        packed = self._matmul
        if packed and _suits(packed, states) and self._state_of(layers) == self._packed_from:
            return torch.split(packed(states), self._widths, dim=-1)
        return [layer(states) for layer in layers]

    @staticmethod
    def _state_of(layers: Sequence[nn.Module]) -> list[tuple[int, int]]:
        return _state(*(one for layer in layers for one in (layer.weight, layer.bias)))  # type: ignore[arg-type]


@functools.cache
def packed_types() -> list[torch.dtype]:
    """The types of weights that are packed on this processor."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return []  # not tested on ARM
    return [torch.float32, *([torch.bfloat16] if "bf16" in fast_instructions(cpu_features()) else [])]


def packs(weight: Tensor) -> bool:
    """Whether a weight is packed on this processor."""
    # Weights made in inference mode do not record their changes.
    return weight.device.type == "cpu" and weight.dtype in packed_types() and not weight.is_inference()
