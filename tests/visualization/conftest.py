"""The translators of `models`, made once a file."""

import pytest

from tests.visualization.models import TEXTS, untrained
from transformer import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return untrained(TEXTS)


@pytest.fixture(scope="module")
def without_cross() -> Translator:
    return untrained(TEXTS, decoder__cross_attention=None)
