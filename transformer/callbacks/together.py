"""Processes that end together: none waits for ever for one that has failed, been killed or lost its machine."""

import os
import secrets
import selectors
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from lightning import Callback, LightningModule, Trainer

from transformer.callbacks.divergence import DivergenceError
from transformer.callbacks.interruption import Interrupted

# What a process says before it goes: that its work is done, or that it fails and tells why itself.
DONE, FAILS = b".", b"!"
# Seconds: to introduce oneself, and until what one has heard of another's end is taken for the cause of one's own.
HELLO, GRACE = 10.0, 1.0


class Together(Callback):
    """Ends this process, with status 1, when another one has ended before its work was done. One of them says so.

    gloo tells of a lost process, but NCCL waits for half an hour, and launchers watch over their own machine at best.
    Here every process is connected to the first: an end, of whatever kind, closes the connection.
    """

    def __init__(self) -> None:
        self.connections: dict[int, socket.socket] = {}
        self.warned = self.ending = False

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if trainer.world_size == 1 or self.connections:
            return
        self.rank, self.world = trainer.global_rank, trainer.world_size
        server = _server() if self.rank == 0 else None
        # The token keeps strangers on the network from passing as one of us.
        port, token = trainer.strategy.broadcast((server.getsockname()[1] if server else 0, secrets.token_bytes(16)))
        if server:
            with server:
                self.connections = _accepted(server, token, self.world - 1)
        else:
            strategy: Any = trainer.strategy
            first = socket.create_connection((strategy.cluster_environment.main_address, port), HELLO)
            first.sendall(token + self.rank.to_bytes(4, "big"))
            self.connections = {0: first}
        for connection in self.connections.values():
            _keep_alive(connection)
        threading.Thread(target=self._watch, name="together", daemon=True).start()

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if stage == "test" and not self.ending:
            self._say(DONE)

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        if not self.connections or self.ending:
            return
        at_once = isinstance(exception, Interrupted) and not exception.saved
        if isinstance(exception, Interrupted | DivergenceError):
            # But for a second signal these end all alike; the first process says which signal it was.
            self._say((FAILS if self.rank == 0 else b"") if at_once else DONE)
            return
        # If it only tells that another has gone, `_watch` ends this process meanwhile, or when that one has told why.
        time.sleep(2 * GRACE)
        if self.warned:
            time.sleep(3 * HELLO)
        self._say(FAILS)

    def _say(self, word: bytes) -> None:
        self.ending = True
        for connection in self.connections.values():
            with suppress(OSError):  # it has gone as well
                connection.sendall(word)

    def _watch(self) -> None:
        """Listens until all have gone, in a thread: the first process to the others, the others to the first."""
        with selectors.DefaultSelector() as selector:
            for rank, connection in self.connections.items():
                selector.register(connection, selectors.EVENT_READ, rank)
            said: dict[int, bytes] = {}
            while selector.get_map():
                for key, _ in selector.select():
                    try:
                        word = key.fileobj.recv(1)  # type: ignore[union-attr]
                    except OSError:  # reset, or its machine does not answer
                        word = b""
                    if word:
                        said[key.data] = word
                        self.warned |= word == FAILS
                    else:
                        selector.unregister(key.fileobj)
                        if said.get(key.data) != DONE:
                            self._end(key.data, told=key.data in said)

    def _end(self, lost: int, told: bool) -> None:
        if self.ending:
            return
        # The second process speaks for the first.
        if not told and self.rank == int(lost == 0):
            # The bar may have hidden the cursor.
            clean = "\r\x1b[2K\x1b[?25h" if sys.stderr.isatty() else ""
            said = f"error: process {lost} of {self.world} has ended before its work was done"
            print(clean + said, file=sys.stderr, flush=True)
        self._say(FAILS)
        # The main thread may wait within NCCL, where no exception reaches it.
        os._exit(1)


def _server() -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _accepted(server: socket.socket, token: bytes, count: int) -> dict[int, socket.socket]:
    """The connections of so many processes that know the token, by rank."""
    found: dict[int, socket.socket] = {}
    server.settimeout(6 * HELLO)
    while len(found) < count:
        connection, _ = server.accept()
        connection.settimeout(HELLO)
        try:
            hello = connection.recv(len(token) + 4, socket.MSG_WAITALL)
        except OSError:
            hello = b""
        if secrets.compare_digest(hello[: len(token)], token):
            found[int.from_bytes(hello[len(token) :], "big")] = connection
        else:
            connection.close()
    return found


def _keep_alive(connection: socket.socket) -> None:
    """Lets the kernel ask, when nothing is said, whether the other machine is still there: lost after 40 seconds."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):  # macOS has other names
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
