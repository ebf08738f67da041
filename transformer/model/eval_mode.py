"""A model as it is used, not trained."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model without dropout; afterwards, whatever happens, as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
