"""The weights of a model's linear layers, packed once for translating on a CPU.

torch multiplies float32 by MKL, which on some processors stays far below what they can do (docs/speed.md). oneDNN is
faster, in the same precision, most of all once a weight lies in the order in which its kernels read it. A row of a
float32 result is then the same, to the last bit, whatever other rows are computed with it. bfloat16 is multiplied by
oneDNN anyway, which for a few rows spends more time on reordering the weight than on multiplying.
"""

import functools
import platform
from typing import TypeVar

import torch
from torch import Tensor, nn

from transformer.device import cpu_features, fast_instructions

Model = TypeVar("Model", bound=nn.Module)


class PackedLinear(nn.Linear):
    """`nn.Linear` with the same parameters, which multiplies by a packed copy of its weight.

    With gradients, under autocast, and once the weight is changed (but not through `weight.data`, which torch does not
    count), moved or converted, it is `nn.Linear` again.
    """

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias, self.training = linear.weight, linear.bias, linear.training
        self._packed: Tensor | None = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self._source = self._state()

    def _state(self) -> tuple[int, int]:
        """Changes when the weight does: in place, or by taking another place."""
        return self.weight.data_ptr(), self.weight._version

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_packed": None}  # a copy has weights of its own

    def forward(self, input: Tensor) -> Tensor:
        packed = self._packed
        if packed is None or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        if input.dtype != packed.dtype or self._state() != self._source:
            return super().forward(input)
        return torch.ops.mkldnn._linear_pointwise(input, packed, self.bias, "none", [], "")  # type: ignore[no-any-return]


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


def _packs(weight: Tensor, types: list[torch.dtype]) -> bool:
    # Weights made in inference mode do not count their changes.
    return weight.device.type == "cpu" and weight.dtype in types and not weight.is_inference()


@functools.cache
def packed_types() -> list[torch.dtype]:
    """The types of weights that are packed on this processor."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return []  # on ARM this has not been tried
    return [torch.float32, *([torch.bfloat16] if "bf16" in fast_instructions(cpu_features()) else [])]
