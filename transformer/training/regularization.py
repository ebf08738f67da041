"""Regularizers within the model, active in training only. They are forward hooks, so the model's code has none of them.

To add one: a function here, its name in REGULARIZERS of `training/config.py`, and a line under `regularization:` in
configs/training. Dropout is part of the model, R-Drop of the loss and BPE-dropout of the data.
"""

from typing import Any

import torch
from torch import Tensor, nn

from transformer.kernels.dropout import Dropout
from transformer.model.transformer import Transformer
from transformer.training.config import REGULARIZERS


def drop_words(model: Transformer, probability: float) -> None:
    """Word dropout: each token of source and target loses its embedding with this probability, and keeps its position
    (Gal & Ghahramani 2016; Sennrich & Zhang 2019)."""

    def hook(tokens: nn.Module, arguments: tuple[Any, ...], embedded: Tensor) -> Tensor | None:
        if not tokens.training:
            return None
        return embedded * (torch.rand(embedded.shape[:2], device=embedded.device) >= probability)[:, :, None]

    for embedding in (model.encoder.embedding, model.decoder.embedding):
        embedding.tokens.register_forward_hook(hook)


def drop_layers(model: Transformer, probability: float) -> None:
    """LayerDrop: each layer passes its input on unchanged with this probability (Fan et al. 2020).

    A dropped layer is still computed: its weights get gradients of zero, which several processes can add up.
    """

    def hook(layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        if not layer.training:
            return None
        # A decoder layer also returns its cache.
        states, updated = arguments[0], output[0] if isinstance(output, tuple) else output
        kept = torch.where(torch.rand((), device=states.device) >= probability, updated, states)
        return (kept, *output[1:]) if isinstance(output, tuple) else kept

    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.register_forward_hook(hook)


def regularize(model: Transformer, probabilities: dict[str, float]) -> None:
    """Attaches every regularizer whose probability is not 0."""
    for name, probability in probabilities.items():
        if probability:
            REGULARIZERS[name](model, probability)


class DropoutWarmup:
    """Raises all dropout of a model evenly from 0 to its settings, over the first `steps` updates (Curriculum Dropout,
    Morerio et al. 2017, but with a straight line instead of their curve).

    Dropout prevents overfitting. While the sentences are still new there is no overfitting, and dropout only slows
    learning down.
    """

    def __init__(self, model: Transformer, steps: int) -> None:
        self.steps = steps
        self.dropouts = [(module, module.p) for module in model.modules() if isinstance(module, Dropout)] * (steps > 0)

    def before_step(self, step: int) -> None:
        """Called after `step` updates."""
        for dropout, p in self.dropouts:
            dropout.p = p * min(1.0, step / self.steps)

    def end(self) -> None:
        for dropout, p in self.dropouts:
            dropout.p = p
