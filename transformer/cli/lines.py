"""Where texts to translate come from: the command line, a file, stdin or a prompt; and how far they are translated."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.config import UsageError
from transformer.data.text_files import decode_lines, read_lines
from transformer.printing import console, say, terminal_safe

if TYPE_CHECKING:
    from transformer.inference.parts import Translation

# The fewest lines translated together: enough to fill batches, few enough that a pipe sees its output soon.
CHUNK = 256
# The steps in which one sees a file advance.
MIN_CHUNKS = 20


def is_prompt(text: str | None, path: str | None) -> bool:
    """Tell a person who types sentence by sentence from a text, a file or a pipe."""
    return text is None and path is None and sys.stdin is not None and sys.stdin.isatty()


def _prompted() -> Iterator[str]:
    with contextlib.suppress(EOFError):
        while True:
            print("> ", end="", file=sys.stderr, flush=True)
            yield input()


def input_lines(text: str | None, path: str | None) -> Iterator[str]:
    """Yield `text`, else the lines of a file, else what is typed at a prompt or comes on stdin."""
    if text is not None:
        yield " ".join(text.split("\n"))  # a line break within the text is a space: one text, one line
    elif path is not None:
        yield from read_lines(Path(path))
    elif sys.stdin is None:
        raise UsageError("stdin is closed: give a text or --input FILE")
    elif is_prompt(text, path):
        say("Type a sentence, Enter translates it; Ctrl-D ends.")
        yield from _prompted()
    else:
        yield from decode_lines(sys.stdin.buffer.readline, "stdin")


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
    """Deal out lines to be translated together, with their numbers, after those that are `done`; on a terminal, show
    how many of a file's are done, how fast, and how long the rest will take."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = ("translating", BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("lines{task.fields[pace]}"))
    stderr, started, before = console(stderr=True), time.monotonic(), done
    with Progress(*columns, console=stderr, disable=total is None or not stderr.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=done, pace="")
        while chunk := list(islice(lines, size)):
            yield range(done + 1, done + 1 + len(chunk)), chunk
            done += len(chunk)
            speed = (done - before) / max(time.monotonic() - started, 0.01)  # which may be 0 by a coarse clock
            left = timedelta(seconds=round(((total or done) - done) / speed))
            bar.update(task, completed=done, pace=f", {speed:,.1f} a second, {left} left")


def as_lines(numbers: Iterable[int], n_best: list[list[Translation]], count: int, on_terminal: bool) -> Iterator[str]:
    """Write the best translation of each text on a line, or up to `count` with number, score and tabs between.

    A file or a pipe gets a translation as it is, marks of right-to-left text too; a terminal would obey some of them.
    """
    for number, hypotheses in zip(numbers, n_best, strict=True):
        for hypothesis in hypotheses[:count]:
            columns = f"{number}\t{hypothesis.score:.4f}\t" if count > 1 else ""
            yield f"{columns}{terminal_safe(hypothesis.text) if on_terminal else hypothesis.text}\n"
