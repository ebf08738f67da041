"""Errors on one line that is safe to print, and safe log messages."""

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

# The most characters of an error, because it may contain text of an untrusted file.
MAX_LINE = 4000


def configure_output() -> None:
    """Sends all log messages to stderr, made safe to print. Sets UTF-8 for pipes and files on every system; a terminal
    keeps its own encoding, and characters that it cannot show are printed as escapes.

    Without this Windows would write results in a code page, and fail at the first → or 你.
    """
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):  # that of a notebook, in %run
            continue
        if stream.isatty() or "PYTHONIOENCODING" in os.environ:
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("lightning").propagate = False  # it has its own handler


def describe(error: BaseException) -> str:
    """The error on one line."""
    if isinstance(error, OSError) and error.strerror and str(error).startswith("[Errno"):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    message = one_line(error, MAX_LINE)
    lost = re.search("Connection (closed|reset) by peer|Broken pipe", message)
    if isinstance(error, RuntimeError) and lost:
        # An error of gloo. The other process reports the cause, unless it was killed.
        return f"another process has ended before its work was done ({lost[0]})"
    if isinstance(error, (ValueError, OSError)):
        return message or type(error).__name__
    if not isinstance(error, RuntimeError):
        message = f"{type(error).__name__}: {message}".removesuffix(": ")
    return f"{message or type(error).__name__} (--debug, for train debug=true, shows where)"


def report(error: BaseException, debug: bool, line: str | None = None) -> None:
    """Prints an error on one line, with `debug` after its traceback; `line` replaces the error's own message."""
    if debug:
        traceback.print_exception(error)
    say(f"{'' if rank() == 0 else f'[rank {rank()}] '}error: {line or describe(error)}")


def status_of(work: Callable[[], object], debug: Callable[[], bool]) -> int:
    """Does the work and returns the exit status: 2 for a mistake of the user, 1 for any other failure, 128 + its number
    for a signal. Each is printed on one line."""
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
        silence(sys.stdout)  # because Python flushes it at the end
        return 128 + 13  # SIGPIPE
    except Exception as error:
        report(error, debug())
        return 2 if isinstance(error, (ValueError, FileNotFoundError)) else 1
