"""The texts to translate: from the command line, a file, stdin or a prompt; and the progress of translating them."""

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

# The smallest number of lines that are translated together: enough for full batches, and few enough for a pipe.
CHUNK = 256
# A file is translated in at least this number of chunks, so that its progress is seen.
MIN_CHUNKS = 20
# Seconds to wait for the next line of another program, which may itself wait for the translation of the last one.
SOON = 0.02
Format = Literal["text", "json"]


def is_prompt(text: str | None, path: str | None) -> bool:
    """Whether a person types sentences at a prompt: there is no text, file or pipe."""
    return text is None and path is None and sys.stdin is not None and sys.stdin.isatty()


class Stream:
    """Lines from another program. A thread reads them, so that the lines that have arrived can be taken at once."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._queue: Queue[str | BaseException] = Queue(2 * CHUNK)
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[str]) -> None:
        try:
            for line in lines:
                self._queue.put(line)
            self._queue.put(StopIteration())
        except Exception as error:  # raised again when the lines are taken
            self._queue.put(error)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._next(None)

    def _next(self, timeout: float | None) -> str:
        found = self._queue.get(timeout=timeout)
        if isinstance(found, BaseException):
            self._queue.put(found)  # so that it is also raised by later calls
            raise found
        return found

    def take(self, size: int) -> list[str]:
        """Waits for the next line, and takes it with the lines shortly after it; at most `size`, none at the end."""
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
    """The line `text`, else the lines of a file, else the lines of a prompt or of stdin."""
    if text is not None:
        return iter([" ".join(text.split("\n"))])  # a line break within the text is a space: one text, one line
    if path is not None:
        return read_lines(Path(path))
    if sys.stdin is None:
        raise UsageError("stdin is closed: give a text or --input FILE")
    if is_prompt(text, path):
        return _prompted()
    # Not sys.stdin itself, which could not be closed at the end of the program while a thread still reads from it.
    stdin = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    return Stream(decode_lines(stdin.readline, "stdin"))


TABLE_REMEDY = "write its column into a separate file, one sentence on each line"


def is_tsv_or_csv(path: str) -> bool:
    """Whether a name is that of a table. A .txt may be a table too, but also a text to translate."""
    return Path(path.removesuffix(".gz")).suffix.lower() in (".tsv", ".csv")


def refuse_table(key: str, path: str) -> None:
    """Refuses a table instead of sentences: all columns of a line would be read as one sentence."""
    if is_tsv_or_csv(path):
        raise UsageError(f"{key} {path} is a table: {TABLE_REMEDY}")


def count_lines(path: str | None) -> int | None:
    """Reads a whole file, so that its faults are found before any work; None for a pipe, which can be read only
    once."""
    if path is not None and Path(path).is_dir():
        raise UsageError(f"--input {path} is a folder: give a file in it")
    if path is None:
        return None
    if not Path(path).exists():
        raise FileNotFoundError(f"--input {path}: no such file")
    if not Path(path).is_file():  # a pipe
        return None
    refuse_table("--input", path)
    return sum(1 for _ in read_lines(Path(path)))


def chunk_size(total: int | None, batch_tokens: int) -> int:
    """How many lines of `total` to translate together. With more lines, sentences of similar length can share batches
    of `batch_tokens`; half as many lines as tokens are about seven batches of short sentences."""
    return CHUNK if total is None else max(CHUNK, min(total // MIN_CHUNKS, batch_tokens // 2))


def chunks(lines: Iterator[str], size: int, done: int, total: int | None) -> Iterator[tuple[range, list[str]]]:
    """Lines to translate together, with their numbers, after the `done` ones. Shows how many lines of a file are
    finished, the speed, and the time left."""
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
            speed = (done - before) / max(now - started, 0.01)  # a coarse clock may give 0
            pace = f", {speed:,.1f} a second, {timedelta(seconds=round(((total or done) - done) / speed))} left"
            bar.update(task, completed=done, pace=pace)
            if bar.disable and total is not None and now - said >= HEARTBEAT:
                say(f"{done:,} of {total:,} lines{pace}")
                said = now


Found = Iterable[tuple[int, str, list["Translation"]]]


def as_lines(found: Found, numbered: bool, on_terminal: bool) -> Iterator[str]:
    """One line for each translation of each text (line number, source, translations); if `numbered`, with number, score
    and confidence, separated by tabs.

    Control characters, also those of right-to-left text, are escaped for a terminal but kept in a file or a pipe.
    """
    for number, _, translations in found:
        for translation in translations:
            columns = f"{number}\t{translation.score:.4f}\t{translation.confidence:.4f}\t" if numbered else ""
            yield f"{columns}{terminal_safe(translation.text) if on_terminal else translation.text}\n"


def as_json(found: Found, on_terminal: bool) -> Iterator[str]:
    """One line with a JSON object for each text; for a terminal in ASCII."""
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
