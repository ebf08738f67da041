"""The small language of `small`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformer.data.datamodule import TranslationData


@pytest.fixture
def data(tmp_path: Path) -> TranslationData:
    from tests.training.small import numbers_data

    return numbers_data(tmp_path)
