"""Signals that ask a program to end: training stops at the next step or validation batch, at the second one at once.

Imports nothing slow: a script handles signals before it imports torch.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning import Trainer

# Ctrl-C, the end of a job or of its time, a closed terminal, Ctrl-\ and the warning before a preemption. Windows has
# only the first two.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
# A scheduler's warning: it may come after another signal, and does not mean "at once" then.
ASKS_ONLY = getattr(signal, "SIGUSR1", None)


class Interrupted(BaseException):
    """A signal has ended the program; who catches it may add `advice` on how to go on. No Exception, as
    KeyboardInterrupt is none: no library on the way may swallow it."""

    def __init__(self, number: int, how: str = "") -> None:
        super().__init__(number, how)
        self.number, self.how, self.advice = number, how, ""

    def __str__(self) -> str:
        return self.message()

    def message(self, names_signal: bool = True) -> str:
        """What has stopped, and how to go on, with or without the signal's name."""
        line = f"stopped {self.how}" if self.how else "stopped"
        if names_signal:
            line += (", by " if self.how else " by ") + signal.Signals(self.number).name
        return line + (f"; {self.advice}" if self.advice else "")


class SignalHandler:
    """A context in which signals raise Interrupted; while `deferred` the first one is only kept in `received`, for
    training to stop where it can save. If a library makes another error of Interrupted, it still leaves the context as
    Interrupted.

    A signal that is ignored stays ignored: nohup asks for that.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.trainer: Trainer | None = None
        self.deferred = False
        self._raised: Interrupted | None = None

    def __enter__(self) -> SignalHandler:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self.previous_handlers = {n: handler for n, handler in handlers.items() if handler != signal.SIG_IGN}
        self.install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handle(self.previous_handlers)
        if self._raised and isinstance(error, Exception):  # as torch does, and then calls a file damaged
            raise self._raised from error

    def install(self, trainer: Trainer | None = None, deferred: bool = False) -> None:
        """Takes the signals back from Lightning at the start of each stage of a run: its handler of SIGTERM would save
        nothing and, with several processes, could wait for ever."""
        self.trainer, self.deferred = trainer, deferred
        self._handle(dict.fromkeys(self.previous_handlers, self._receive))

    def end_at_once(self) -> None:
        """Lets a signal end this process, until `install`: while processes wait for each other no handler would run."""
        self._handle(dict.fromkeys(self.previous_handlers, signal.SIG_DFL))

    def _handle(self, handlers: dict[signal.Signals, Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.deferred and (self.received is None or number == ASKS_ONLY):
            self.received = self.received or number
            return
        launcher: Any = self.trainer.strategy.launcher if self.trainer else None
        if launcher is not None:
            # The other processes would wait for this one for ever.
            launcher.kill(getattr(signal, "SIGKILL", signal.SIGTERM))  # to Windows they are one
        self._raised = Interrupted(number, "at once, without saving" if self.trainer else "")
        raise self._raised
