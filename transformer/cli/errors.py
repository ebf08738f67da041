"""What went wrong, in one line."""

import os
import re
import sys
import traceback

from hydra.errors import HydraException, InstantiationException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException


class UsageError(ValueError):
    """A mistake on the command line; its message names the key and the remedy."""


def describe(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, HydraException) and error.__cause__ is not None:
        if isinstance(error, InstantiationException):
            return describe(error.__cause__)
        return f"{str(error).splitlines()[0] if str(error) else ''} {describe(error.__cause__)}".strip()
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is not set: give {error.full_key}=VALUE"
    if isinstance(error, OmegaConfBaseException):
        return (f"{error.full_key}: " if error.full_key else "") + str(error).splitlines()[0]
    message = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and re.search("Connection (closed|reset) by peer|Broken pipe", message):
        # As gloo has it; the cause is the other's to tell, unless it was killed.
        return f"another process has ended before its work was done ({message[-120:]})"
    if not isinstance(error, (ValueError, OSError, RuntimeError, HydraException)):
        message = f"{type(error).__name__}: {message}".removesuffix(": ")
    expected = isinstance(error, (ValueError, OSError, HydraException))
    return (message or type(error).__name__) + ("" if expected else " (debug=true shows where)")


def rank() -> int:
    """Number this process among those that torchrun, Lightning or SLURM has started together."""
    known = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID") if name in os.environ]
    return int(known[0]) if known else 0


def report(error: BaseException, debug: bool) -> None:
    """Print an error on one line, after its traceback if that is asked for."""
    if debug:
        traceback.print_exception(error)
    where = "" if rank() == 0 else f"[rank {rank()}] "
    print(f"{where}error: {describe(error)}", file=sys.stderr, flush=True)
