"""The page that translates, opened for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browsers import Chromium
    from tests.tools.page.opened import Opened


@pytest.fixture
def live(browser: Chromium, live_path: Path) -> Iterator[Opened]:
    """The page in the file `live_path`, a fixture of each file of tests; without an error when the test is over."""
    from tests.tools.page.opened import without_errors

    with without_errors(browser, live_path, width=1100) as opened:
        yield opened
