"""Connections have limits in a server: file descriptors, and memory for answers that nobody reads."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message

import transformer.tools.server.listening
from tests.processes import posix_only
from tests.tools.server.client import SECONDS, Wire, in_a_loop
from tests.tools.server.models import english_and_french
from transformer.inference.translator import BEAM
from transformer.tools.server.api import Api
from transformer.tools.server.app import BLOCK, make_app
from transformer.tools.server.batcher import Batcher
from transformer.tools.server.listening import MAX_CONNECTIONS, listen, log_failure, make_server, max_connections
from transformer.tools.server.served import ServedDirection
from transformer.tools.server.settings import ServerSettings

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SETTINGS = ServerSettings(port=0)
POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""


def app_of(*pages: str) -> ASGIApp:
    """An application with a page for each direction."""
    translator = english_and_french()
    directions = {
        ("en", f"x{n}"): ServedDirection(translator, Path("run"), "run", page) for n, page in enumerate(pages)
    }
    return make_app(Api(directions, Batcher(BEAM, None, "sentences", 1), SETTINGS, None))


@contextmanager
def served(app: ASGIApp) -> Iterator[tuple[str, int]]:
    """The address of a server in a thread."""
    with listen(SETTINGS) as listener:
        server = make_server(app, SETTINGS)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    blocks = []
    try:
        while block := connection.recv(BLOCK):
            blocks.append(block)
    except ConnectionError:
        pass
    return b"".join(blocks)


def test_connections_that_send_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer.tools.server.listening, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(transformer.tools.server.listening, "SPARE", 2)
    with served(app_of()) as address, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address, SECONDS)) for _ in range(5)]
        for _ in range(5):
            with socket.create_connection(address, SECONDS) as another:
                assert received(another) == b""
        silent[0].sendall(HEALTH)
        assert received(silent[0]).startswith(b"HTTP/1.1 503 ")
        for connection in silent[1:4]:
            connection.close()
        # One is left: there is room for a second when the server knows that the others are closed.
        end, answer = time.monotonic() + SECONDS, b""
        while time.monotonic() < end and not answer.startswith(b"HTTP/1.1 200 "):
            with socket.create_connection(address, SECONDS) as another:
                another.sendall(HEALTH)
                answer = received(another)
        assert answer.startswith(b"HTTP/1.1 200 ")


@posix_only
@pytest.mark.parametrize(
    ("files", "allowed"), [(1 << 20, MAX_CONNECTIONS), (-1, MAX_CONNECTIONS), (1024, 492), (256, 108), (64, 16)]
)
def test_a_process_of_few_files_has_fewer_connections(
    files: int, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    unlimited = resource.RLIM_INFINITY if files == -1 else files
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (unlimited, unlimited))
    assert max_connections() == allowed


@pytest.mark.parametrize("size", [BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 1])
def test_a_page_is_handed_over_in_blocks(size: int) -> None:
    page = POLICY + "ä" + "0123456789" * (size // 10 + 1)
    wire = Wire(path="/page/en-x0")
    answer = wire.ask(app_of(page[: size - 1]))
    assert answer.content.decode() == page[: size - 1]
    assert answer.headers["Content-Length"] == str(size)
    assert max(len(message.get("body", b"")) for message in wire.sent) <= BLOCK
    assert [message["more_body"] for message in wire.sent[1:-1]] == [True] * (len(wire.sent) - 2)
    assert not wire.sent[-1].get("more_body", False)


def test_slow_readers_of_a_page_share_one_copy() -> None:
    import tracemalloc

    app = app_of(POLICY + "a" * (size := 4_000_000), POLICY)

    async def ask_and_read_nothing() -> int:
        """The memory for ten readers."""

        async def never(message: Message) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        before, _ = tracemalloc.get_traced_memory()
        wires = [Wire(path="/page/en-x0") for _ in range(10)]
        readers = [asyncio.ensure_future(app(wire.scope, wire.receive, never)) for wire in wires]
        await asyncio.sleep(0.05)
        after, _ = tracemalloc.get_traced_memory()
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        return after - before

    tracemalloc.start()
    try:
        assert in_a_loop(ask_and_read_nothing()) < size
    finally:
        tracemalloc.stop()


def test_what_fails_on_a_connection_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        log_failure(loop, {"message": "a", "exception": OSError("geheim"), "transport": None})
        log_failure(loop, {"message": "b", "exception": OSError("geheim")})

    in_a_loop(fail())
    assert caplog.messages == ["b: OSError"]


@pytest.mark.long
@posix_only
def test_a_signal_that_is_ignored_does_not_end_a_server() -> None:
    """Ignored, as in commands that a shell script starts with &; in a new process, because signals belong to a
    process."""
    program = """
import signal
from transformer.tools.server.listening import stopping
class Server: should_exit = False
signal.signal(signal.SIGINT, signal.SIG_IGN)
before = signal.getsignal(signal.SIGTERM)
with stopping(Server) as received:
    signal.raise_signal(signal.SIGINT)
    print(received, Server.should_exit)
    signal.raise_signal(signal.SIGTERM)
    print(received == [signal.SIGTERM], Server.should_exit)
print(signal.getsignal(signal.SIGTERM) == before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["[]", "False", "True", "True", "True"]
