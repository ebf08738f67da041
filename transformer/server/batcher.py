"""One thread that owns the models: what waits is translated together, in rounds in which every request gets its share.

A round is small: a short text does not wait for the whole of a long request, and a request that nobody waits for
(its future is cancelled) ends with the round. But a round has at least one whole text: a very long line is not divided.
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from transformer.inference.search import SearchSettings
from transformer.inference.translator import SplitLines, Translation, Translator

NBest = list[list[Translation]]
# Characters of a round: enough to fill batches, few enough that a newcomer waits a second, not ten.
ROUND_CHARACTERS = 8192
# What a text costs besides its characters.
TEXT_OVERHEAD = 20


class QueueFullError(Exception):
    """So many requests wait that another one would wait too long."""


@dataclass(eq=False)
class Job:
    """The texts of one request; `found` has the hypotheses of those that are translated already, in order."""

    translator: Translator
    texts: Sequence[str]
    future: "Future[NBest]" = field(default_factory=Future)
    found: NBest = field(default_factory=list)


def _up_to(limit: int, texts: Sequence[str]) -> list[str]:
    """The first texts that fit into a limit, at least one."""
    taken: list[str] = []
    for text in texts:
        limit -= len(text) + TEXT_OVERHEAD
        if taken and limit < 0:
            break
        taken.append(text)
    return taken


class Batcher:
    """Translates for many callers at once, as long as the process lives."""

    def __init__(
        self, search: SearchSettings, batch_tokens: int | None, split_lines: SplitLines, max_waiting: int
    ) -> None:
        self.search, self.batch_tokens, self.split_lines = search, batch_tokens, split_lines
        self.max_waiting = max_waiting
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="translator", daemon=True).start()

    def submit(self, translator: Translator, texts: Sequence[str]) -> "Future[NBest]":
        """The hypotheses of each text, best first, once they are there; raises QueueFullError."""
        job = Job(translator, texts)
        with self._changed:
            if sum(not waiting.future.done() for waiting in self._jobs) >= self.max_waiting:
                raise QueueFullError
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def _run(self) -> None:
        while True:
            shares = self._next_round()
            self._translate(shares)
            with self._changed:
                for job, _ in shares:
                    self._jobs.remove(job)
                    if not job.future.done() and len(job.found) < len(job.texts):
                        self._jobs.append(job)  # behind those who wait for their first turn
            for job, _ in shares:
                if len(job.found) == len(job.texts):
                    with suppress(InvalidStateError):  # nobody waits for it any more, or it has failed
                        job.future.set_result(job.found)

    def _next_round(self) -> list[tuple[Job, list[str]]]:
        """Jobs of one translator with the texts of each that are next; waits for the first."""
        with self._changed:
            while True:
                self._jobs = deque(job for job in self._jobs if not job.future.done())
                if self._jobs:
                    break
                self._changed.wait()
            jobs = [job for job in self._jobs if job.translator is self._jobs[0].translator]
        shares, left = [], ROUND_CHARACTERS
        for job in jobs:
            if left > 0:
                texts = _up_to(ROUND_CHARACTERS // len(jobs), job.texts[len(job.found) :])
                shares.append((job, texts))
                left -= sum(len(text) + TEXT_OVERHEAD for text in texts)
        return shares

    def _translate(self, shares: list[tuple[Job, list[str]]]) -> None:
        """Adds what is found to each job; where that fails, only the job at fault does."""
        texts = [text for _, share in shares for text in share]
        # Numbered within their own request: what sampling draws must not depend on who else asks.
        lines = [len(job.found) + place + 1 for job, share in shares for place in range(len(share))]
        try:
            found = shares[0][0].translator.n_best(texts, self.search, self.batch_tokens, self.split_lines, lines)
        except Exception as error:
            if len(shares) > 1:
                for one in shares:
                    self._translate([one])
                return
            with suppress(InvalidStateError):
                shares[0][0].future.set_exception(error)
            return
        hypotheses = iter(found)
        for job, share in shares:
            job.found += [next(hypotheses) for _ in share]
