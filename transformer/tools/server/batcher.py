"""One thread that owns the models. It translates waiting requests together, in rounds in which each gets its share.

A round is small: a short text does not wait until a long request is completely encoded or translated, and a cancelled
request ends with the round. Texts are divided into the parts that the model translates (usually sentences), also a very
long line.
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from transformer.inference.confidence import with_words
from transformer.inference.parts import Part, Translation
from transformer.inference.settings import SearchSettings, SplitLines
from transformer.inference.translator import Translator

NBest = list[list[Translation]]
# Tokens of a round: enough to fill batches, few enough that a new request waits one second, not ten.
ROUND_TOKENS = 2048
# Added to the tokens of a part to get its cost.
PART_OVERHEAD = 5
TEXTS_AT_ONCE = 32  # texts of one request that are encoded together


class QueueFullError(Exception):
    """Too many requests are waiting: another one would wait too long."""


def cost(parts: Sequence[Part]) -> int:
    return sum(len(part.ids) + PART_OVERHEAD for part in parts)


def _up_to(limit: int, parts: Sequence[Part]) -> list[Part]:
    """The first parts that fit into a limit, at least one."""
    taken: list[Part] = []
    for part in parts:
        limit -= cost([part])
        if taken and limit < 0:
            break
        taken.append(part)
    return taken


@dataclass(eq=False)
class Job:
    """The texts of one request; `encoded` has the parts of the first texts, and `found` the hypotheses of the first
    parts, both in order. With `wants_words`, the best translations get their words (`inference.confidence`)."""

    translator: Translator
    texts: list[str]
    search: SearchSettings = SearchSettings()
    wants_words: bool = False
    future: "Future[NBest]" = field(default_factory=Future)
    encoded: list[list[Part]] = field(default_factory=list)
    found: NBest = field(default_factory=list)

    def next_parts(self, limit: int, split_lines: SplitLines) -> list[Part]:
        """The next parts to translate that fit into a limit, at least one; encodes only as many texts as needed."""
        parts = list(chain.from_iterable(self.encoded))[len(self.found) :]
        while cost(parts) < limit and (begin := len(self.encoded)) < len(self.texts):
            texts = self.texts[begin : begin + TEXTS_AT_ONCE]
            # Numbered within their own request, so that sampling does not depend on other requests.
            more = self.translator.encode(texts, range(begin + 1, begin + 1 + len(texts)), split_lines)
            self.encoded += more
            parts += chain.from_iterable(more)
        return _up_to(limit, parts)

    @property
    def is_done(self) -> bool:
        return len(self.encoded) == len(self.texts) and len(self.found) == sum(map(len, self.encoded))

    def finish(self, batch_tokens: int | None) -> None:
        found = iter(self.found)
        results = [self.translator.join([next(found) for _ in parts]) for parts in self.encoded]
        if self.wants_words and not self.future.done():
            best = [hypotheses[0] for hypotheses in results]
            best = with_words(self.translator, self.texts, best, batch_tokens=batch_tokens)
            results = [[first, *others] for first, (_, *others) in zip(best, results, strict=True)]
        with suppress(InvalidStateError):  # it was cancelled or has failed
            self.future.set_result(results)

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Batcher:
    """Translates for many callers at once, until the process ends."""

    def __init__(
        self, search: SearchSettings, batch_tokens: int | None, split_lines: SplitLines, max_waiting: int
    ) -> None:
        self.search, self.batch_tokens, self.split_lines = search, batch_tokens, split_lines
        self.max_waiting = max_waiting
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="translator", daemon=True).start()

    def submit(
        self, translator: Translator, texts: list[str], prefix: str | None = None, wants_words: bool = False
    ) -> "Future[NBest]":
        """A future with the hypotheses of each text, best first; `prefix` replaces that of the search. Raises
        QueueFullError."""
        job = Job(translator, texts, replace(self.search, prefix=prefix) if prefix else self.search, wants_words)
        with self._changed:
            if sum(not waiting.future.done() for waiting in self._jobs) >= self.max_waiting:
                raise QueueFullError
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def _run(self) -> None:
        while True:
            shares = self._share_out(self._waiting())
            self._translate(shares)
            for job, _ in shares:
                if job.is_done:
                    try:
                        job.finish(self.batch_tokens)
                    except Exception as error:
                        job.fail(error)
            with self._changed:
                for job, _ in shares:
                    self._jobs.remove(job)
                    if not job.future.done():
                        self._jobs.append(job)  # behind jobs that wait for their first turn

    def _waiting(self) -> list[Job]:
        """Jobs with the same translator and search; waits for the first job."""
        with self._changed:
            while True:
                self._jobs = deque(job for job in self._jobs if not job.future.done())
                if self._jobs:
                    break
                self._changed.wait()
            first = self._jobs[0]
            return [job for job in self._jobs if job.translator is first.translator and job.search == first.search]

    def _share_out(self, jobs: list[Job]) -> list[tuple[Job, list[Part]]]:
        """The jobs of this round, each with its next parts."""
        shares, left = [], ROUND_TOKENS
        for job in jobs:
            if left > 0 and not job.future.done():  # its client may have gone meanwhile
                try:
                    parts = job.next_parts(max(1, ROUND_TOKENS // len(jobs)), self.split_lines)
                except Exception as error:
                    job.fail(error)
                    continue
                shares.append((job, parts))
                left -= cost(parts)
        return shares

    def _translate(self, shares: list[tuple[Job, list[Part]]]) -> None:
        """Adds the hypotheses to each job; if translating fails, only the job that causes it fails."""
        if not shares:
            return
        first, parts = shares[0][0], [part for _, share in shares for part in share]
        found = None
        try:
            found = first.translator.n_best_parts(parts, first.search, self.batch_tokens)
        except Exception as error:
            if len(shares) == 1:
                first.fail(error)
                return
        if found is None:  # tried again here, after the error is gone: it may hold much memory of the search
            for one in shares:
                self._translate([one])
            return
        hypotheses = iter(found)
        for job, share in shares:
            job.found += [next(hypotheses) for _ in share]
