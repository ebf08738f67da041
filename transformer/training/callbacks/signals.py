"""Signals that ask a run to stop: the first one at the next step or validation batch, the second at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from lightning import Trainer

# The end of a job or of its time, ctrl-c, and (not on Windows) the warning before a preemption.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))


class Interrupted(BaseException):
    """A signal has ended the run. No Exception, as KeyboardInterrupt is none: no library on the way may swallow it."""

    def __init__(self, number: int, saved_step: int | None = None) -> None:
        how = "at once, without saving" if saved_step is None else f"and saved at step {saved_step:,}"
        super().__init__(f"stopped {how}, by {signal.Signals(number).name}")
        self.number = number


class SignalHandler:
    """A context in which signals raise Interrupted; while `deferred` the first one is only kept in `received`, for
    training to stop where it can save."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.trainer: Trainer | None = None
        self.deferred = False

    def __enter__(self) -> "SignalHandler":
        self.previous_handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handle(self.previous_handlers)

    def install(self, trainer: Trainer | None = None, deferred: bool = False) -> None:
        """Takes the signals back from Lightning at the start of each stage of a run: its handler of SIGTERM would save
        nothing and, with several processes, could wait for ever."""
        self.trainer, self.deferred = trainer, deferred
        self._handle(dict.fromkeys(SIGNALS, self._receive))

    def _handle(self, handlers: dict[signal.Signals, Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.deferred and self.received is None:
            self.received = number
            return
        launcher: Any = self.trainer.strategy.launcher if self.trainer else None
        if launcher is not None:
            # The other processes would wait for this one for ever.
            launcher.kill(signal.SIGKILL)
        raise Interrupted(number)
