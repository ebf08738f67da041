"""Which cases of a test pytest runs, which only `pytest -m long` and .ci/run do, and which need a newer torch."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch


def needs_torch(version: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(torch.__version__ < version, reason=f"needs torch {version} or later")


needs_muon = needs_torch("2.9")


def skip_without(optimizer: str) -> None:
    """Skips a test of an optimizer that this torch lacks."""
    if optimizer == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("torch has no Muon")


def others_long(cases: Iterable[Any], short: int = 1) -> list[Any]:
    """The first cases of a test as they are; the others are marked as long, as together they take seconds."""
    marked = list(cases)
    for index, case in enumerate(marked[short:], short):
        marked[index] = pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long)
    return marked
