"""Installed browsers that show our pages: Chromium, driven by Playwright, and Firefox, driven by its own Marionette."""

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --process-per-site "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
# A chosen port, no first-run pages, no connections to the maker, no processes for pages that are not open.
FIREFOX_PREFERENCES = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.normandy.enabled": False,
    "services.settings.server": "",
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "extensions.update.enabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
    "browser.newtab.preload": False,
}
# The options that most tests share; a test may replace any of them with another of Playwright's options.
TAB = {"viewport": {"width": 1280, "height": 720}, "locale": "en-US", "color_scheme": "light"}
KEYS = {"Tab": "\ue004"}  # as WebDriver names them
START_SECONDS, ANSWER_SECONDS = 120, 120


class Chromium:
    """The browser, with one tab for each language and kind of device, which gets the wanted size and colors.

    A page in an open tab costs a third of one in a new context, which needs new processes. It shares the browser's
    stored data with earlier pages; our pages store nothing.
    """

    def __init__(self, driver: Any) -> None:
        self.browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        self.tabs: dict[str, Any] = {}

    def tab(self, **options: Any) -> Any:
        """Playwright's page in the tab with these options; the next call with the same options gets the same tab."""
        options = TAB | options
        size, colors = options.pop("viewport"), options.pop("color_scheme")
        name = repr(sorted(options.items()))
        if name not in self.tabs:
            self.tabs[name] = self.new_tab(**options)
        tab = self.tabs[name]
        tab.set_viewport_size(size)
        tab.emulate_media(color_scheme=colors)
        tab.mouse.move(0, 0)  # the next page may have an element at the old place
        return tab

    def new_tab(self, **options: Any) -> Any:
        return self.browser.new_context(**TAB | options).new_page()

    def close(self) -> None:
        self.browser.close()


class Visit:
    """A page in a tab of Chromium, with its requests and errors until it is closed."""

    def __init__(self, tab: Any, url: str) -> None:
        self.page = tab
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.listeners = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda message: self.errors.append(message.text),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.listeners.items():
            tab.on(event, listener)
        tab.goto(url)

    def close(self) -> None:
        """The page stays in its tab until the next one is opened there, which then needs no new process."""
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)


class Firefox:
    """The browser with one tab, controlled over a local socket with messages `length:json`, as by geckodriver."""

    def __init__(self, profile: Path) -> None:
        preferences = (f'user_pref("{name}", {json.dumps(value)});\n' for name, value in FIREFOX_PREFERENCES.items())
        (profile / "user.js").write_text("".join(preferences), encoding="utf-8")
        command = [str(FIREFOX), "--headless", "--marionette", "--no-remote", "--profile", str(profile), "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.count = 0
        self.socket: socket.socket | None = None
        try:
            self.socket = socket.create_connection(("127.0.0.1", self._port(profile)), timeout=ANSWER_SECONDS)
            self.stream = self.socket.makefile("rb")
            self._receive()  # its greeting
            self.ask("WebDriver:NewSession", capabilities={})
            self.ask("WebDriver:SetTimeouts", script=1000 * ANSWER_SECONDS)
        except BaseException:
            self.close()
            raise

    def _port(self, profile: Path) -> int:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if (file := profile / "MarionetteActivePort").exists() and (text := file.read_text(encoding="utf-8")):
                return int(text)
            time.sleep(0.05)
        raise RuntimeError("Firefox did not start")

    def _receive(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            if not (byte := self.stream.read(1)):
                raise RuntimeError("Firefox has ended")
            length += byte
        return json.loads(self.stream.read(int(length[:-1])))

    def ask(self, command: str, **parameters: Any) -> Any:
        self.count += 1
        message = json.dumps([0, self.count, command, parameters]).encode()
        assert self.socket is not None
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, number, error, result = self._receive()
        assert number == self.count
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def open(self, path: Path) -> None:
        self.ask("WebDriver:Navigate", url=path.as_uri())

    def evaluate(self, function: str, argument: Any = None) -> Any:
        """The result of a JavaScript function (or of its promise) in the page, as with Playwright's `evaluate`."""
        script = f"return ({function})(arguments[0])"
        return self.ask("WebDriver:ExecuteScript", script=script, args=[argument])["value"]

    def press(self, key: str) -> None:
        """Presses a key that has no letter."""
        keys = [{"type": kind, "value": KEYS[key]} for kind in ("keyDown", "keyUp")]
        self.ask("WebDriver:PerformActions", actions=[{"type": "key", "id": "keyboard", "actions": keys}])

    def close(self) -> None:
        if self.socket is not None:
            self.stream.close()
            self.socket.close()
        self.process.terminate()
        self.process.wait()
