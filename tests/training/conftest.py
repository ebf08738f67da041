"""The small language of `small`."""

from pathlib import Path

import pytest

from tests.training.small import numbers_data
from transformer.data.datamodule import TranslationData


@pytest.fixture
def data(tmp_path: Path) -> TranslationData:
    return numbers_data(tmp_path)
