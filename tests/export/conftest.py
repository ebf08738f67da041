"""The small translators of `models`, made once, and their pages."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.browsers import Firefox
from tests.export.models import Build, random_translator, small_tokenizer, teach_to_repeat
from tests.export.pages import Open, Opened
from transformer import Translator
from transformer.export.formats import ExportSettings, export


@pytest.fixture(scope="session")
def build() -> Build:
    """Makes a translator whose weights are all random: `build(a__b=x)` sets model.a.b."""
    return partial(random_translator, small_tokenizer())


@pytest.fixture(scope="session")
def taught(build: Build) -> Translator:
    """A translator that has learned a little: `teach_to_repeat`."""
    translator = build()
    teach_to_repeat(translator, steps=60)
    return translator


@pytest.fixture(scope="module")
def open_page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Exports a translator and opens the page, in Chromium unless `firefox` is given."""
    opened: list[Opened] = []

    def open_page(translator: Translator, precision: str | None = None, firefox: Firefox | None = None) -> Opened:
        path = tmp_path_factory.mktemp("page") / "translator.html"
        export(translator, ExportSettings("page", precision, str(path)))  # type: ignore[arg-type]
        opened.append(Opened(firefox or browser, path))
        assert opened[-1].status == "ready"
        return opened[-1]

    yield open_page
    for one in opened:
        assert one.errors == []
        assert all(url.startswith(("file:", "blob:null/")) for url in one.requests)
        one.close()
