"""Packs the weights of a model, for faster translation on a CPU."""

from typing import TypeVar

from torch import nn

from transformer.kernels.packed import FUSED_ACTIVATIONS, PackedLinear, PackedProjections, packs
from transformer.model.attention import MultiHeadAttention
from transformer.model.layers import FeedForward

Model = TypeVar("Model", bound=nn.Module)


def pack(model: Model) -> Model:
    """`model` with packed linear layers: on x86 processors in float32, and in bfloat16 if the processor multiplies it
    fast. Other layers stay unchanged.

    The three projections of self-attention become one layer, and an activation becomes part of the layer before it. A
    packed weight takes memory in addition to the weight itself. Without gradients the model computes the same, up to
    rounding.
    """
    for module in list(model.modules()):
        attention = getattr(module, "self_attention", None)
        if isinstance(attention, MultiHeadAttention):
            layers = [attention.query, attention.key, attention.value]
            if all(type(layer) is nn.Linear and packs(layer.weight) for layer in layers):
                attention.projections = PackedProjections(*layers)
        if isinstance(module, FeedForward) and module.activation_name in FUSED_ACTIVATIONS:
            name = "inner" if module.gate is None else "gate"
            if packs((layer := getattr(module, name)).weight):
                setattr(module, name, PackedLinear(layer, module.activation_name))
                module.activation = nn.Identity()
        are_one = isinstance(getattr(module, "projections", None), PackedProjections)
        for name, layer in list(module.named_children()):
            if type(layer) is nn.Linear and packs(layer.weight) and not (are_one and name in ("query", "key", "value")):
                setattr(module, name, PackedLinear(layer))
    return model
