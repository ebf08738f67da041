"""Takes the pictures of docs/page.md from docs/demo.html: `python docs/pictures/page.py` (needs chromium)."""

import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parents[1]


def opened(browser: Browser, width: int, height: int, **context: Any) -> Any:
    """The demo in a new tab, once its translation is there."""
    tab = browser.new_context(viewport={"width": width, "height": height}, locale="en-US", **context).new_page()
    tab.goto((DOCS / "demo.html").as_uri())
    tab.locator("#target .piece").nth(1).wait_for()
    return tab


def take(tab: Any, name: str) -> None:
    """Few colors: a quarter of the size."""
    path = DOCS / "images" / f"{name}.png"
    tab.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = opened(browser, 1180, 900)
        tab.locator("#layer input[value='1']").check()
        tab.locator("#target .piece", has_text="wrote").click()
        take(tab, "page")
        tab.locator("#tour-start").click()
        tab.locator("#stations input[value='cross']").check()
        tab.wait_for_function("() => document.querySelector('#station-numbers').textContent")
        take(tab, "page_tour")
        tab.locator("#tour-end").click()
        tab.locator("#tab-stepwise").click()
        for _ in range(4):
            tab.locator("#step-next").click()
        take(tab, "page_step")
        tab.locator("#method input[value='beam']").check()
        tab.locator("#tab-search").click()
        tab.wait_for_function("() => document.querySelectorAll('#hypotheses tbody tr').length > 1")
        take(tab, "page_search")
        phone = opened(browser, 360, 900, color_scheme="dark")
        phone.locator("#language input[value='zh']").check()
        take(phone, "page_phone")
        browser.close()


if __name__ == "__main__":
    main()
