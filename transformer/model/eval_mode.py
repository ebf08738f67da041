"""A model as it is used, not trained."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*models: nn.Module) -> Iterator[None]:
    """The models without dropout; when it ends, even by an error, they are as they were before."""
    training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for model, before in zip(models, training, strict=True):
            model.train(before)
