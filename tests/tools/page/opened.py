"""A page in a browser, with what the tests ask of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browsers import Chromium, Visit


class Opened(Visit):
    def __init__(self, browser: Chromium, path: Path, **context: Any) -> None:
        super().__init__(browser.tab(**context), path.as_uri())

    def piece(self, side: str, position: int) -> Any:
        return self.page.locator(f"#{side} .piece").nth(position)

    def shares(self, side: str) -> list[float]:
        every = f"[...document.querySelectorAll('#{side} .piece')]"
        return self.page.evaluate(f"{every}.map(piece => Number(piece.style.getPropertyValue('--share')))")

    def current(self) -> str:
        return self.page.evaluate("document.querySelector('.piece.current').closest('.pieces').id") + str(
            self.page.evaluate("document.querySelector('.piece.current').dataset.position")
        )

    def choose(self, group: str, value: str) -> None:
        self.page.locator(f"#{group} input[value='{value}']").check()


@contextmanager
def without_errors(browser: Chromium, path: Path, width: int) -> Iterator[Opened]:
    """A page whose translation is there; without an error when the test is over."""
    opened = Opened(browser, path, viewport={"width": width, "height": 900})
    opened.piece("target", 1).wait_for()
    yield opened
    assert opened.errors == []
    opened.close()
