"""A page in a browser, with what the tests ask of it."""

from pathlib import Path
from typing import Any


class Opened:
    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_context(**context).new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

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
