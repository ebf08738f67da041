"""Processes that tests start, all forked from one that has imported torch, Lightning and Hydra: that takes seconds.

(The checks of shapes that `tests.conftest` installs are not in them: it is not imported here.)
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
    """The words that a shell makes of a command; on Windows it keeps a backslash, but for one before a quote."""
    return shlex.split(re.sub(r'\\(?!")', r"\\\\", command) if sys.platform == "win32" else command)


def peak_memory() -> int:
    """The most memory that this process has had so far, in bytes; 0 on Windows, which does not count it so."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
