"""A model in evaluation mode, without dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*models: nn.Module) -> Iterator[None]:
    """Switches the models to evaluation; at the end, even after an error, each part has its former mode again."""
    training = [(part, part.training) for model in models for part in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for part, before in training:
            part.training = before
