"""Processes that tests start, all forked from one that has imported torch, Lightning and Hydra, which takes seconds.

(They do not have the checks of shapes of `tests.conftest`, which is not imported here.)
"""

import multiprocessing
import re
import shlex
import sys

import pytest

CAN_FORK = "forkserver" in multiprocessing.get_all_start_methods()
CHILDREN = multiprocessing.get_context("forkserver" if CAN_FORK else "spawn")
if CAN_FORK:
    CHILDREN.set_forkserver_preload(["tests.preloaded"])

posix_only = pytest.mark.skipif(not CAN_FORK, reason="needs signals, forks or limits of POSIX")


def shell_words(command: str) -> list[str]:
    """The words of a command, split as by a shell; on Windows a backslash stays, except before a quote."""
    return shlex.split(re.sub(r'\\(?!")', r"\\\\", command) if sys.platform == "win32" else command)


def peak_memory() -> int:
    """The most memory of this process so far, in bytes; 0 on Windows, which does not count it in this way."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
