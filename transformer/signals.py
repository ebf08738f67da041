"""Ctrl-C (SIGINT) and SIGTERM end a program. Training ends at the next place where it can save; a second signal ends it
at once.

This module imports nothing slow: a script handles signals before it imports torch.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal has ended the program. The handler may set `how` (how far the work is) and `advice` (how to continue).
    `can_save`: the state can be saved where it is raised.

    Like KeyboardInterrupt it is no Exception, so that no library catches it.
    """

    def __init__(self, number: int, how: str = "", can_save: bool = False) -> None:
        super().__init__(number, how)
        self.number, self.how, self.can_save, self.advice = number, how, can_save, ""

    def __str__(self) -> str:
        line = f"stopped {self.how}, by " if self.how else "stopped by "
        name = "Ctrl-C" if self.number == signal.SIGINT else signal.Signals(self.number).name
        return line + name + (f"; {self.advice}" if self.advice else "")


class SignalHandler:
    """A context in which signals raise Interrupted. Within `deferred` the first one is only kept in `received`. If a
    library turns Interrupted into another error, it becomes Interrupted again at the end of the context.

    A signal that is ignored stays ignored, for example SIGINT if a shell script starts the program with &.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._is_deferred = False
        self._raised: Interrupted | None = None

    def __enter__(self) -> SignalHandler:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self._before = {n: handler for n, handler in handlers.items() if handler != signal.SIG_IGN}
        self._handle(dict.fromkeys(self._before, self._receive))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handle(self._before)
        if self._raised and isinstance(error, Exception):  # torch does this and reports a damaged file
            raise self._raised from error

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within this context the first signal waits in `received`."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within this context a signal ends the process: no handler would run while processes wait for each other."""
        self._handle(dict.fromkeys(self._before, signal.SIG_DFL))
        try:
            yield
        finally:
            self._handle(dict.fromkeys(self._before, self._receive))

    def _handle(self, handlers: dict[signal.Signals, Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._is_deferred and self.received is None:
            self.received = number
            return
        self._raised = Interrupted(number, "at once, without saving" if self._is_deferred else "")
        raise self._raised
