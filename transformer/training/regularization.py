"""Whole words and whole layers left out at random, by hooks: the model itself knows nothing of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.model import Transformer

Cut = Literal["token", "feature", "span"]


def drop_words(model: Transformer, share: float) -> None:
    """From now on each word of source and target has no embedding, only its position, with this probability while
    training (Gal & Ghahramani 2016; Sennrich & Zhang 2019)."""

    def hook(tokens: nn.Module, arguments: tuple[Any, ...], embedded: Tensor) -> Tensor | None:
        if not tokens.training:
            return None
        return embedded * (torch.rand(embedded.shape[:2], device=embedded.device) >= share)[:, :, None]

    for embedding in (model.encoder.embedding, model.decoder.embedding):
        embedding.tokens.register_forward_hook(hook)


def drop_layers(model: Transformer, share: float) -> None:
    """From now on each layer leaves the states as they are with this probability while training (LayerDrop, Fan et al.
    2020); all layers serve otherwise.

    A layer left out is computed nevertheless: its weights get gradients of zero, which processes can add up.
    """

    def hook(layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        if not layer.training:
            return None
        states, updated = arguments[0], output[0] if isinstance(output, tuple) else output
        kept = torch.where(torch.rand((), device=states.device) >= share, updated, states)
        return (kept, *output[1:]) if isinstance(output, tuple) else kept

    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.register_forward_hook(hook)


@contextmanager
def cut_second_half(model: Transformer, cut: Cut, share: float) -> Iterator[None]:
    """Within it, the second half of a batch's sentences lose a share of their embedded words (token), of the
    embedding's dimensions (feature), or of neighboring words (span), at random (Cutoff, Shen et al. 2020)."""

    def hook(embedding: nn.Module, arguments: tuple[Any, ...], states: Tensor) -> Tensor:
        half = len(states) // 2
        return torch.cat([states[:half], states[half:] * _kept(states[half:], cut, share)])

    with ExitStack() as hooks:
        for embedding in (model.encoder.embedding, model.decoder.embedding):
            hooks.callback(embedding.register_forward_hook(hook).remove)
        yield


def _kept(states: Float[Tensor, "batch length dim"], cut: Cut, share: float) -> Tensor:
    """True where the states stay; can be multiplied with them."""
    batch, length, dim = states.shape
    if cut == "feature":
        return torch.rand(batch, 1, dim, device=states.device) >= share
    if cut == "token":
        return torch.rand(batch, length, 1, device=states.device) >= share
    width = round(share * length)
    begin = (torch.rand(batch, 1, device=states.device) * (length - width + 1)).floor()
    places = torch.arange(length, device=states.device)
    return ((places < begin) | (places >= begin + width))[:, :, None]
