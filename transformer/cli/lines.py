"""Where texts to translate come from and where translations go: the command line, files, stdin and stdout, a prompt."""

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from transformer.cli.errors import say
from transformer.config import UsageError
from transformer.data.corpus import MAX_LINE_BYTES, read_lines
from transformer.files import atomic_file


def input_lines(text: str | None, path: str | None) -> Iterator[str]:
    """Yield `text`, else the lines of a file, else what is typed at a prompt or comes on stdin."""
    if text is not None:
        yield " ".join(text.split("\n"))  # a line break within the text is a space: one text, one line
    elif path is not None:
        yield from read_lines(Path(path))
    elif sys.stdin is None:
        raise UsageError("stdin is closed: give text=… or input=FILE")
    elif sys.stdin.isatty():
        say("Type a sentence, Enter translates it; Ctrl-D ends.")
        yield from _prompted()
    else:
        yield from _decoded(sys.stdin.buffer)


def _prompted() -> Iterator[str]:
    with contextlib.suppress(EOFError):
        while True:
            print("> ", end="", file=sys.stderr, flush=True)
            yield input()


def _decoded(stream: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), 1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"stdin line {number} has more than {MAX_LINE_BYTES:,} bytes: no sentence has")
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"stdin line {number} is not UTF-8") from error


@contextlib.contextmanager
def output_file(path: str | None) -> Iterator[TextIO]:
    """Open stdout, or a file that appears when all of it is written, for UTF-8 text whatever the locale says."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        yield sys.stdout
        return
    with atomic_file(Path(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()  # or it would close the file before it has its name
