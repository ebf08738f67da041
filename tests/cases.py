"""Marks the cases of a test that only run with `pytest -m long` and .ci/run, or that need a newer torch."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch


def needs_torch(version: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(torch.__version__ < version, reason=f"needs torch {version} or later")


def others_long(cases: Iterable[Any], short: int = 1) -> list[Any]:
    """The first cases of a test unchanged; the others are marked as long, because together they take seconds."""
    marked = list(cases)
    for index, case in enumerate(marked[short:], short):
        marked[index] = pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long)
    return marked
