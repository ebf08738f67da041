"""A model as it is used, not trained."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*models: nn.Module) -> Iterator[None]:
    """The models without dropout; when it ends, even by an error, each of their parts is as it was before."""
    training = [(part, part.training) for model in models for part in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for part, before in training:
            part.training = before
