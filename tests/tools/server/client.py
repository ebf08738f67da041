"""Servers as processes, requests to them, and requests to an application without a server."""

import asyncio
import http.client
import json
import re
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from tests.scripts.running import Run, start

# One thread, and no timing of kernels, because these servers are small and run beside other tests.
QUICK = "--port 0 --threads 1 --matmul-precision highest --device cpu".split()
SECONDS = 120


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Serving:
    """A server that is ready, on its own port."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.run: Run = start("serve", *QUICK, *arguments, cwd=cwd)
        self.run.wait_for("serving at ")
        [self.url] = re.findall(r"serving at (http://127\.0\.0\.1:\d+/)", self.log())
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def log(self) -> str:
        return self.run.err.read_text(encoding="utf-8")

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.msg, response.read())
        finally:
            connection.close()

    def post(self, path: str, fields: Any) -> Answer:
        return self.ask("POST", path, json.dumps(fields).encode(), {"Content-Type": "application/json"})

    def translate(self, text: Any, source: str = "de", target: str = "en", **fields: Any) -> Any:
        answer = self.post("/translate", {"q": text, "source": source, "target": target} | fields)
        assert answer.status == 200, answer.content
        return answer.json

    def at_once(self, texts: list[str], clients: int) -> list[str]:
        """The translation of each text, requested by many clients together."""
        with ThreadPoolExecutor(clients) as pool:
            return list(pool.map(lambda text: self.translate(text)["translatedText"], texts))


def in_a_loop(awaited: Awaitable[Any]) -> Any:
    """The result of a coroutine, run in another thread, because this one may have the event loop of a browser."""

    async def wait() -> Any:
        return await awaited

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


class Wire:
    """One request to an application, passed on as by a server, its body in pieces; then its client disconnects or,
    without `hangs_up`, waits. Without `ends` the body is incomplete."""

    def __init__(
        self, *body: bytes, path: str = "/translate", kind: str = "", ends: bool = True, hangs_up: bool = False
    ) -> None:
        headers = [(b"content-type", kind.encode())]
        method = "POST" if body else "GET"
        self.scope: Scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        self._incoming: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in body]
        self._incoming += [{"type": "http.request", "body": b"", "more_body": False}] * ends
        self._incoming += [{"type": "http.disconnect"}] * hangs_up
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        if not self._incoming:
            await asyncio.Event().wait()
        return self._incoming.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def ask(self, app: ASGIApp) -> Answer:
        in_a_loop(app(self.scope, self.receive, self.send))
        begin, *rest = self.sent
        headers = http.client.HTTPMessage()
        for key, value in begin["headers"]:
            headers[key.decode()] = value.decode()
        return Answer(begin["status"], headers, b"".join(message.get("body", b"") for message in rest))
