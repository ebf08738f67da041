"""The small translators of `models`, made once, and their pages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browsers import Chromium, Firefox

if TYPE_CHECKING:
    from tests.tools.export.models import Build
    from tests.tools.export.pages import Open, Opened
    from transformer import Translator


@pytest.fixture(scope="session")
def build() -> Build:
    """Makes a translator with only random weights: `build(a__b=x)` sets model.a.b."""
    from tests.tools.export.models import random_translator, small_tokenizer

    return partial(random_translator, small_tokenizer())


@pytest.fixture(scope="session")
def taught(build: Build) -> Translator:
    """A translator that has learned a little: `teach_to_repeat`."""
    from tests.tools.export.models import teach_to_repeat

    translator = build()
    teach_to_repeat(translator, steps=60)
    return translator


@pytest.fixture
def open_page(browser: Chromium, tmp_path: Path) -> Iterator[Open]:
    """Exports a translator and opens the page, in Chromium or with `firefox` in Firefox; it stays open until the next
    one."""
    from tests.tools.export.pages import exported

    opened: list[Opened] = []

    def close() -> None:
        for one in opened:
            one.assert_harmless()
            one.close()
        opened.clear()

    def open_page(translator: Translator, precision: str | None = None, firefox: Firefox | None = None) -> Opened:
        close()
        opened.append(exported(translator, firefox or browser.tab(), tmp_path / "translator.html", precision))
        return opened[0]

    yield open_page
    close()
