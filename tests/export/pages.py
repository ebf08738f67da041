"""Exported pages, opened in a browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.browsers import Firefox

# Waits until the page is ready, or says why not.
READY = """async () => {
  for (let waited = 0; waited < 60_000; waited += 10) {
    const status = document.getElementById("status")?.textContent ?? "";
    if (window.translator) return "ready";
    if (status && !status.startsWith("If this line stays")) return status;
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}"""


class Opened:
    """A page in Chromium or Firefox. Nothing may go wrong on it, and nothing may be asked for but itself."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        if isinstance(browser, Firefox):
            self.page: Any = browser
            browser.open(path)
        else:
            self.page = browser.new_page()
            self.page.on("request", lambda request: self.requests.append(request.url))
            self.page.on("pageerror", lambda error: self.errors.append(str(error)))
            self.page.on("console", lambda message: self.errors.append(message.text))
            self.page.goto(path.as_uri())
        self.status = self.page.evaluate(READY)

    def ask(self, function: str, *argument: Any) -> Any:
        return self.page.evaluate(function, list(argument))

    def close(self) -> None:
        if not isinstance(self.page, Firefox):
            self.page.close()


Open = Callable[..., Opened]
