"""A function in a process of its own, which ends with this one however that ends."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _answer(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which then ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer: tuple[Any, Exception | None]
    try:
        answer = function(*arguments), None
    except Exception as error:
        answer = None, error
    with contextlib.suppress(BrokenPipeError):
        sender.send(answer)


def in_new_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """What `function` returns, or raises, in a new process: its memory is its own. Both must be picklable."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        answer, error = receiver.recv()
    except EOFError as ended:
        raise RuntimeError("the process that was to measure was ended; was there too little memory?") from ended
    finally:
        process.kill()
        process.join()
    if error is not None:
        raise error
    return answer  # type: ignore[no-any-return]
