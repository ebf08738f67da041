"""Other programs on the same processors: how long this one's threads wait for their turn (known on Linux)."""

import time
from pathlib import Path

import torch


def seconds_waited(threads: Path = Path("/proc/self/task")) -> dict[str, float]:
    """How long each thread of this process could have run so far, but had no processor; empty where that is unknown."""
    waited = {}
    for file in threads.glob("*/schedstat"):
        try:
            _, nanoseconds, _ = file.read_text().split()
        except (OSError, ValueError):  # the thread has ended
            continue
        waited[file.parent.name] = int(nanoseconds) / 1e9
    return waited


class Contention:
    """Watches whether other programs slow down several threads, which wait for each other at every operation: one busy
    core of two makes a step three times as long, and then a single thread is faster (docs/speed.md)."""

    # Alone on its processors a thread waits for under 1 % of the time, beside one busy core of two for 30 to 40 %.
    min_seconds, min_share = 20.0, 0.15

    def __init__(self) -> None:
        self.noted = False
        self.start()

    def start(self) -> None:
        """The time from now on counts."""
        self.started, self.waited = time.monotonic(), seconds_waited()

    def note(self) -> str | None:
        """One line, once, if a thread waited for much of the last seconds, and with fewer threads it need not."""
        passed, threads = time.monotonic() - self.started, torch.get_num_threads()
        if self.noted or threads == 1 or passed < self.min_seconds:
            return None
        before = self.waited
        self.start()
        longest = max((now - before.get(thread, now) for thread, now in self.waited.items()), default=0.0)
        if longest < self.min_share * passed:
            return None
        self.noted = True
        return (
            f"other programs use the same processors: in the last {passed:.0f} s training waited for one in "
            f"{longest / passed:.0%} of the time. machine.threads={threads // 2} may be faster, also to resume with"
        )
