"""A model as it is used, not trained."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*models: nn.Module) -> Iterator[None]:
    """The models without dropout; afterwards, whatever happens, as they were."""
    training = [model for model in models if model.training]
    for model in training:
        model.eval()
    try:
        yield
    finally:
        for model in training:
            model.train()
