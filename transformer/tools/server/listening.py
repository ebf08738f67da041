"""The port, and the end of the server: after a first signal it finishes all requests, after a second it ends at
once."""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import socket
from collections.abc import Iterator
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from transformer.config import UsageError
from transformer.data.directions import Direction
from transformer.printing import say, shell_word
from transformer.signals import SIGNALS, Interrupted
from transformer.tools.server.settings import ServerSettings

log = logging.getLogger(__name__)
# With more connections, a request is answered with 503 at once; with SPARE more than this, a connection is closed at
# once. Each takes a file descriptor, even if it sends nothing; without free ones asyncio only reports errors.
MAX_CONNECTIONS, SPARE = 1000, 20
# The number of connections that are accepted together, before one of them can be closed.
BACKLOG = 64
# Seconds for a client to read an answer after its translation is finished.
GRACE = 5


def listen(settings: ServerSettings) -> socket.socket:
    """Opens the port before the models are loaded; clients that connect wait until then."""
    try:
        [family, *_], *_ = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        listener = socket.create_server((settings.host, settings.port), family=family)
        # For all connections: without it, the end of an answer waits 40 ms until the client confirms the beginning.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--port {settings.port} of --host {settings.host} cannot be used: {reason}; choose another port"
        ) from error


def address(listener: socket.socket) -> str:
    """The URL of the server."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def example(url: str, direction: Direction, key_file: str | None) -> str:
    """A command to copy, for a translation."""
    # An untrusted model may have any text as the names of its languages.
    source, target = direction
    fields = map(shell_word, (f"source={source}", f"target={target}", "q=…"))
    key = [f'"api_key=$(cat {shlex.quote(key_file)})"'] if key_file else []
    return " --data-urlencode ".join([f"curl {url}translate", *fields, *key])


def log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Replaces asyncio's own handler: errors of a connection are ignored, others are logged in one line."""
    if "transport" not in context:
        log.error("%s: %s", context["message"], type(context.get("exception")).__name__)


def max_connections() -> int:
    """MAX_CONNECTIONS, or fewer, so that half of the files that this process may open stay free."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(16, files // 2 - SPARE))


class Connection(H11Protocol):
    """uvicorn's connection, but closed at once if there are too many, and without input after it is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + SPARE:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        # The answer to a malformed request closes the connection; on Windows more data may still arrive.
        if not self.transport.is_closing():
            super().data_received(data)


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers, and without tracebacks in its log."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(log_failure)
        await super().startup(sockets)

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


@contextlib.contextmanager
def stopping(server: uvicorn.Server) -> Iterator[list[int]]:
    """A context in which signals stop a server; yields the received signals."""
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if not received:
            received.append(number)
            server.should_exit = True
        else:
            say(str(Interrupted(number, "at once")))
            os._exit(128 + number)  # Python would wait for threads that still compute

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_server(app: ASGIApp, settings: ServerSettings) -> Server:
    return Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=max_connections(),
            backlog=BACKLOG,
            timeout_graceful_shutdown=int(settings.timeout) + GRACE,
        )
    )


def run(app: ASGIApp, listener: socket.socket, settings: ServerSettings) -> None:
    """Serves until a signal comes, then answers all requests that have begun; raises Interrupted at the end."""
    # The warnings of the first contain texts of requests, those of the second report each malformed form.
    for name in ("transformer.inference", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)
    server = make_server(app, settings)
    with stopping(server) as received:
        server.run(sockets=[listener])
    raise Interrupted(received[0])
