"""Where texts to translate come from: the command line, a file, stdin or a prompt; and how far they are translated."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Literal

from transformer.config import UsageError
from transformer.data.text_files import decode_lines, read_lines
from transformer.printing import HEARTBEAT, console, say, terminal_safe

if TYPE_CHECKING:
    from transformer.inference.parts import Translation

# The fewest lines translated together: enough to fill batches, few enough that a pipe sees its output soon.
CHUNK = 256
# The steps in which one sees a file advance.
MIN_CHUNKS = 20
# Seconds for which a chunk waits for the next line of another program, which may wait for the chunk.
SOON = 0.02
Format = Literal["text", "json"]


def is_prompt(text: str | None, path: str | None) -> bool:
    """Tell a person who types sentence by sentence from a text, a file or a pipe."""
    return text is None and path is None and sys.stdin is not None and sys.stdin.isatty()


class Stream:
    """Lines that another program writes: a thread reads them, so that one can take those that have come."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._queue: Queue[str | BaseException] = Queue(2 * CHUNK)
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[str]) -> None:
        try:
            for line in lines:
                self._queue.put(line)
            self._queue.put(StopIteration())
        except Exception as error:  # it is raised where the lines are taken
            self._queue.put(error)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._next(None)

    def _next(self, timeout: float | None) -> str:
        found = self._queue.get(timeout=timeout)
        if isinstance(found, BaseException):
            self._queue.put(found)  # it stays the last
            raise found
        return found

    def take(self, size: int) -> list[str]:
        """The next line, when it comes, and those close behind it; at most `size`, none at the end."""
        taken = list(islice(self, 1))
        with contextlib.suppress(Exception):  # an error comes after the lines before it
            while taken and len(taken) < size:
                taken.append(self._next(SOON))
        return taken


def _prompted() -> Iterator[str]:
    say("Type a sentence, Enter translates it; Ctrl-D ends.")
    with contextlib.suppress(EOFError):
        while True:
            print("> ", end="", file=sys.stderr, flush=True)
            yield input()


def input_lines(text: str | None, path: str | None) -> Iterator[str]:
    """Yield `text`, else the lines of a file, else what is typed at a prompt or comes on stdin."""
    if text is not None:
        return iter([" ".join(text.split("\n"))])  # a line break within the text is a space: one text, one line
    if path is not None:
        return read_lines(Path(path))
    if sys.stdin is None:
        raise UsageError("stdin is closed: give a text or --input FILE")
    if is_prompt(text, path):
        return _prompted()
    # Not by sys.stdin itself, which a thread that still reads would hold when the program ends.
    stdin = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    return Stream(decode_lines(stdin.readline, "stdin"))


TABLE_REMEDY = "write its column into a file of its own, a sentence a line"


def is_tsv_or_csv(path: str) -> bool:
    """Tell a table by its name: a .txt may be one too, but also a text to translate."""
    return Path(path.removesuffix(".gz")).suffix.lower() in (".tsv", ".csv")


def refuse_table(key: str, path: str) -> None:
    """Refuse a table where sentences belong: all columns of a line would be taken for one sentence."""
    if is_tsv_or_csv(path):
        raise UsageError(f"{key} {path} is a table: {TABLE_REMEDY}")


def count_lines(path: str | None) -> int | None:
    """Read a whole file, and so find what is wrong with it, before any work; None for what can be read only once."""
    if path is not None and Path(path).is_dir():
        raise UsageError(f"--input {path} is a folder: name a file in it")
    if path is None:
        return None
    if not Path(path).exists():
        raise FileNotFoundError(f"--input {path}: no such file")
    if not Path(path).is_file():  # a pipe
        return None
    refuse_table("--input", path)
    return sum(1 for _ in read_lines(Path(path)))


def chunk_size(total: int | None, batch_tokens: int) -> int:
    """How many lines of `total` to translate together. The more there are, the better their lengths fit into batches
    of `batch_tokens`; half as many lines as tokens are some seven batches of short sentences."""
    return CHUNK if total is None else max(CHUNK, min(total // MIN_CHUNKS, batch_tokens // 2))


def chunks(lines: Iterator[str], size: int, done: int, total: int | None) -> Iterator[tuple[range, list[str]]]:
    """Deal out lines to be translated together, with their numbers, after those that are `done`. Show how many of a
    file's are done, how fast, and how long the rest will take."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = ("translating", BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("lines{task.fields[pace]}"))
    stderr, started, before = console(stderr=True), time.monotonic(), done
    said = started
    with Progress(*columns, console=stderr, disable=total is None or not stderr.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=done, pace="")
        while chunk := lines.take(size) if isinstance(lines, Stream) else list(islice(lines, size)):
            yield range(done + 1, done + 1 + len(chunk)), chunk
            done += len(chunk)
            now = time.monotonic()
            speed = (done - before) / max(now - started, 0.01)  # which may be 0 by a coarse clock
            pace = f", {speed:,.1f} a second, {timedelta(seconds=round(((total or done) - done) / speed))} left"
            bar.update(task, completed=done, pace=pace)
            if bar.disable and total is not None and now - said >= HEARTBEAT:
                say(f"{done:,} of {total:,} lines{pace}")
                said = now


Found = Iterable[tuple[int, str, list["Translation"]]]


def as_lines(found: Found, numbered: bool, on_terminal: bool) -> Iterator[str]:
    """Write the translations of each text (line number, source, translations) on lines of their own, `numbered` with
    number, score, confidence and tabs between.

    A file or a pipe gets a translation as it is, marks of right-to-left text too; a terminal would obey some of them.
    """
    for number, _, translations in found:
        for translation in translations:
            columns = f"{number}\t{translation.score:.4f}\t{translation.confidence:.4f}\t" if numbered else ""
            yield f"{columns}{terminal_safe(translation.text) if on_terminal else translation.text}\n"


def as_json(found: Found, on_terminal: bool) -> Iterator[str]:
    """Write an object for each text, on a line; for a terminal in ASCII."""
    for number, source, translations in found:
        described = [
            {
                "text": one.text,
                "score": one.score,
                "log_probability": one.log_probability,
                "confidence": one.confidence,
                "is_cut": one.is_cut,
                "words": one.words_as_dicts,
            }
            for one in translations
        ]
        row = {"line": number, "source": source, "translations": described}
        yield f"{json.dumps(row, ensure_ascii=on_terminal)}\n"
