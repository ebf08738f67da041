"""Signals that ask a run to stop: the first is heeded at the next step or validation batch, the second at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from lightning import Trainer

# A scheduler's or a user's wish to end, ctrl-c, and the warning before a preemption.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Interrupted(BaseException):
    """A run that a signal has ended. As KeyboardInterrupt, no Exception: no library on the way may swallow it."""

    def __init__(self, number: int, saved_step: int | None = None) -> None:
        how = "at once, without saving" if saved_step is None else f"and saved at step {saved_step:,}"
        super().__init__(f"stopped {how}, by {signal.Signals(number).name}")
        self.number = number


class SignalHandler:
    """Within it signals raise Interrupted; while training, the first one waits for `received` to be asked."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.trainer: Trainer | None = None
        self.waits = False

    def __enter__(self) -> "SignalHandler":
        self.earlier = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._handle(self.earlier)

    def install(self, trainer: Trainer | None = None, waits: bool = False) -> None:
        """Takes the signals back from Lightning, whose handler of SIGTERM would save nothing (and, among several
        processes, could wait for ever); told of every stage of a run."""
        self.trainer, self.waits = trainer, waits
        self._handle(dict.fromkeys(SIGNALS, self._receive))

    def _handle(self, handlers: dict[signal.Signals, Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.waits and self.received is None:
            self.received = number
            return
        launcher: Any = self.trainer.strategy.launcher if self.trainer else None
        if launcher is not None:
            # The other processes would wait for this one.
            launcher.kill(signal.SIGKILL)
        raise Interrupted(number)
