"""What went wrong, in one line that is safe to print."""

import os
import re
import traceback

from hydra.errors import HydraException, InstantiationException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from transformer.data.printable import print_safely


class UsageError(ValueError):
    """A mistake on the command line; its message names the key and the remedy."""


def say(message: str) -> None:
    """Print one line on stderr."""
    print_safely(message, stderr=True)


def describe(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return describe(error.__cause__)
    if isinstance(error, HydraException) and error.__cause__ is not None:
        return f"{str(error).splitlines()[0] if str(error) else ''} {describe(error.__cause__)}".strip()
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is not set: give {error.full_key}=VALUE"
    if isinstance(error, OmegaConfBaseException):
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, (UsageError, OSError)):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:  # what one of our resolvers has found, within OmegaConf's error
            return describe(cause)
        return (f"{error.full_key}: " if error.full_key else "") + str(error).splitlines()[0]
    if isinstance(error, OSError) and error.strerror and str(error).startswith("[Errno"):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    message = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and re.search("Connection (closed|reset) by peer|Broken pipe", message):
        # What gloo says. The other process tells the cause, unless it was killed.
        return f"another process has ended before its work was done ({message[-120:]})"
    expected = isinstance(error, (ValueError, OSError, HydraException))
    if not expected and not isinstance(error, RuntimeError):
        message = f"{type(error).__name__}: {message}".removesuffix(": ")
    return (message or type(error).__name__) + ("" if expected else " (debug=true shows where)")


def rank() -> int:
    """Return the number of this process among those that torchrun, Lightning or SLURM has started together."""
    numbers = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID") if name in os.environ]
    return int(numbers[0]) if numbers else 0


def report(error: BaseException, debug: bool) -> None:
    """Print an error on one line, after its traceback if that is asked for."""
    if debug:
        traceback.print_exception(error)
    say(f"{'' if rank() == 0 else f'[rank {rank()}] '}error: {describe(error)}")
