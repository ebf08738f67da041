"""Untrained translators, made once for each file and shared by tests of the page and of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformer import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    from tests.tools.page.models import TEXTS, untrained

    return untrained(TEXTS)


@pytest.fixture(scope="module")
def without_cross() -> Translator:
    from tests.tools.page.models import TEXTS, untrained

    return untrained(TEXTS, decoder__cross_attention=None)
