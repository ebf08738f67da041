"""What went wrong, in one line that is safe to print; and log messages that are."""

import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable

from transformer.printing import SafeFormatter, one_line, say, silence
from transformer.processes import rank
from transformer.signals import Interrupted, SignalHandler

# Characters of an error: what a stranger's file holds may be in it.
MAX_LINE = 4000


def configure_output() -> None:
    """Send all log messages to stderr, made safe to print. Let a pipe or a file take UTF-8 on every system, as texts
    are read from them; a terminal keeps its own encoding, and shows as an escape what that lacks.

    Without this Windows would write results in a code page, and end with an error at the first → or 你.
    """
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):  # a notebook's, of %run
            continue
        if stream.isatty() or "PYTHONIOENCODING" in os.environ:
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("lightning").propagate = False  # it brings a handler of its own


def describe(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, OSError) and error.strerror and str(error).startswith("[Errno"):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    message = one_line(error, MAX_LINE)
    lost = re.search("Connection (closed|reset) by peer|Broken pipe", message)
    if isinstance(error, RuntimeError) and lost:
        # What gloo says. The other process tells the cause, unless it was killed.
        return f"another process has ended before its work was done ({lost[0]})"
    if isinstance(error, (ValueError, OSError)):
        return message or type(error).__name__
    if not isinstance(error, RuntimeError):
        message = f"{type(error).__name__}: {message}".removesuffix(": ")
    return f"{message or type(error).__name__} (--debug, for train debug=true, shows where)"


def report(error: BaseException, debug: bool, line: str | None = None) -> None:
    """Print an error on one line, after its traceback if that is asked for; `line` says more than the error itself."""
    if debug:
        traceback.print_exception(error)
    say(f"{'' if rank() == 0 else f'[rank {rank()}] '}error: {line or describe(error)}")


def status_of(work: Callable[[], object], debug: Callable[[], bool]) -> int:
    """Works, and returns the exit status: 2 for a mistake in what was asked for, 1 for any other failure, 128 + its
    number for a signal. Each is printed on one line."""
    try:
        with SignalHandler():
            work()
            sys.stdout.flush()
        return 0
    except Interrupted as stopped:
        if rank() == 0:
            say(str(stopped))
        return 128 + stopped.number
    except BrokenPipeError:  # the reader of stdout has gone: `translate.py | head`
        silence(sys.stdout)  # for Python's own last flush
        return 128 + 13  # SIGPIPE
    except Exception as error:
        report(error, debug())
        return 2 if isinstance(error, (ValueError, FileNotFoundError)) else 1
