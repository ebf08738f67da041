"""The weights of a model's linear layers, packed once for translating on a CPU.

torch multiplies float32 by MKL, which on some processors stays far below what they can do (docs/speed.md). oneDNN is
faster, in the same precision, most of all once a weight lies in the order in which its kernels read it. A row of a
float32 result is then the same, to the last bit, whatever other rows are computed with it. bfloat16 is multiplied by
oneDNN anyway, which for a few rows spends more time on reordering the weight than on multiplying.
"""

import functools
import platform
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.device import cpu_features, fast_instructions

Model = TypeVar("Model", bound=nn.Module)
# Activations that oneDNN applies while it writes a result: our name → its name and algorithm.
FUSED_ACTIVATIONS = {"none": ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "silu": ("swish", "")}
Input = Float[Tensor, "*rows inputs"]
Output = Float[Tensor, "*rows outputs"]


class PackedMatmul(NamedTuple):
    """x Wᵀ + b, with a packed W, and what can be done in the same operation."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Input, activation: str = "none") -> Output:
        name, algorithm = FUSED_ACTIVATIONS[activation]
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, name, [], algorithm)  # type: ignore[no-any-return]

    def plus(self, x: Input, residual: Output) -> Output:
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")  # type: ignore[no-any-return]

    def times(self, x: Input, factor: Output) -> Output:
        return torch.ops.mkldnn._linear_pointwise.binary(x, factor, self.weight, self.bias, "mul")  # type: ignore[no-any-return]


def pack_weight(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach())  # type: ignore[no-any-return]


class PackedLinear(nn.Linear):
    """`nn.Linear` with the same parameters, which multiplies by a packed copy of its weight.

    With gradients, under autocast, and once the weight is changed (but not through `weight.data`, which torch does not
    count), moved or converted, it is `nn.Linear` again.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.training = linear.weight, linear.bias, linear.training
        self._packed: Tensor | None = pack_weight(linear.weight)
        self._packed_from = self._weight_version()

    def packed_matmul(self) -> PackedMatmul | None:
        """The multiplication without the checks of `forward`, for code that makes them once; None if the weight has
        changed."""
        if self._packed is None or self._weight_version() != self._packed_from:
            return None
        return PackedMatmul(self._packed, self.bias)

    def _weight_version(self) -> tuple[int, int]:
        """Changes when the weight does: in place, or by taking another place."""
        return self.weight.data_ptr(), self.weight._version

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_packed": None}  # a copy has weights of its own

    def forward(self, input: Tensor) -> Tensor:
        packed = self._packed
        if packed is None or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        if input.dtype != packed.dtype or self._weight_version() != self._packed_from:
            return super().forward(input)
        return PackedMatmul(packed, self.bias)(input)


@functools.cache
def packed_types() -> list[torch.dtype]:
    """The types of weights that are packed on this processor."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return []  # on ARM this has not been tried
    return [torch.float32, *([torch.bfloat16] if "bf16" in fast_instructions(cpu_features()) else [])]


def _packs(weight: Tensor, types: list[torch.dtype]) -> bool:
    # Weights made in inference mode do not count their changes.
    return weight.device.type == "cpu" and weight.dtype in types and not weight.is_inference()


def pack(model: Model) -> Model:
    """`model`, whose linear layers on an x86 processor pack their weights in float32, and in bfloat16 where it
    multiplies that fast; the others stay as they are.

    A packed weight is a second one in memory. Without gradients the model computes the same, up to rounding.
    """
    types = packed_types()
    for module in list(model.modules()):
        for name, layer in module.named_children():
            if type(layer) is nn.Linear and _packs(layer.weight, types):
                setattr(module, name, PackedLinear(layer))
    return model
