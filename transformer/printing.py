"""Safe printing: untrusted text is made harmless for a terminal here and nowhere else.

Names, messages, corpora and translations are only printed by `print_safely` (results, on stdout), by `say` (messages,
on stderr) or on a `console`; log messages are made safe by `SafeFormatter`. If stderr is closed
(`train.py 2>&1 | head`), the work continues without output.
"""

import logging
import os
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO, TypeVar

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment

Item = TypeVar("Item")
# Seconds between two lines of progress if there is no bar.
HEARTBEAT = 30.0
# Marks that reorder the text around them: embeddings, overrides and isolates of the bidirectional algorithm.
BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def terminal_safe(text: str) -> str:
    """One line; characters that control a terminal or end the line become escapes such as \\x1b or \\n."""
    if text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode()
        if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in BIDI_CONTROLS
        else letter
        for letter in text
    )


def shell_word(text: str) -> str:
    """A text quoted for a shell; on Windows for cmd, which has only double quotes, and for PowerShell."""
    if sys.platform != "win32":
        return shlex.quote(text)
    return text if re.fullmatch(r"[\w@+=:./\\-]+", text) else '"{}"'.format(text.replace('"', r"\""))


def from_here(path: Path) -> Path:
    """A path, relative to the current folder if it is within it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def shell_path(path: Path) -> str:
    """A path quoted for a shell, seen from the current folder."""
    return shell_word(str(from_here(path)))


def script_command(name: str) -> str:
    """How to start a command from here: as a script beside the running one, else as `translator NAME`."""
    running = Path(sys.argv[0]).absolute()
    beside = running.with_name(f"{name.replace('-', '_')}.py")
    is_script = running.parent.name == "scripts" and beside.is_file()
    return f"python {shell_path(beside)}" if is_script else f"translator {name}"


def quoted(text: str) -> str:
    """Any text as a value for KEY= of train, in quotes if it needs them."""
    if re.fullmatch(r"(?!(null|true|false|nan|inf)$)(\.\.?|[a-z_/][\w./-]*)", text, re.ASCII | re.IGNORECASE):
        return text
    # A backslash is doubled only before a quote.
    inner = re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + ("\\'" if found[2] else ""), text)
    return f"'{inner}'"


def key_of(override: str) -> str:
    """The name of the setting, or the group, in `+key=value`."""
    return override.lstrip("+~").partition("=")[0]


def resume_command(folder: Path) -> str:
    """The command that continues a run, for a shell in the current folder."""
    return f"{script_command('train')} {shell_word(f'resume={quoted(str(from_here(folder)))}')}"


def one_line(error: BaseException, max_length: int | None = None) -> str:
    """The message of an error, on one line."""
    return " ".join(str(error).split())[:max_length]


def shortened(text: str) -> str:
    """At most 60 characters of a text, as an example of it."""
    return text if len(text) <= 60 else f"{text[:59]}…"


def print_safely(*lines: str) -> None:
    """Prints lines on stdout."""
    for line in lines:
        print(terminal_safe(line))


def silence(stream: TextIO) -> None:
    """Discards everything that is printed on a stream from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(*lines: str) -> None:
    """Prints lines on stderr, at once."""
    try:
        for line in lines:
            print(terminal_safe(line), file=sys.stderr, flush=True)
    except BrokenPipeError:
        silence(sys.stderr)


class SafeFormatter(logging.Formatter):
    """Formats a log message so that it is safe to print; a traceback keeps its lines."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(terminal_safe, super().format(record).expandtabs(2).split("\n")))


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Replaces rich's own method, which ends the program without a message."""
        if not self.stderr:
            raise  # this method is called while the error is handled
        silence(sys.stderr)


class _Safe:
    """`renderable` with all its text made safe; rich's own controls for bars stay."""

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self.renderable, options):
            safe = text if control else "\n".join(map(terminal_safe, text.split("\n")))
            yield Segment(safe, style, control)


class _SafeText(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Safe(renderable) for renderable in renderables]


def console(stderr: bool = False) -> Console:
    """rich's console for tables, bars and styled text: only its own control codes reach the terminal.

    In a pipe no line is wrapped or cut. FORCE_COLOR, which notebooks and CI set, is ignored for a pipe: bars would fill
    thousands of lines.
    """
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty() or os.environ.get("TTY_COMPATIBLE") == "1"
    width = None if terminal else 10_000
    made = _Console(stderr=stderr, width=width, force_terminal=terminal, markup=False, emoji=False, highlight=False)
    made.push_render_hook(_SafeText())
    return made


class ProgressBar:
    """A context that shows a bar on a terminal, and nothing elsewhere."""

    def __init__(self, what: str) -> None:
        from rich.progress import Progress  # not needed by scripts without a bar

        shown = console(stderr=True)
        self._bar = Progress(console=shown, transient=True, disable=not shown.is_terminal)
        self._task = self._bar.add_task(what)

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)


def with_progress(items: Iterable[Item], what: str, total: int | None = None) -> Iterable[Item]:
    """The items, with a progress bar on a terminal. (Elsewhere the bar would leave an empty line, also before an
    error.)"""
    from rich.progress import track  # not needed by scripts without a bar

    bar = console(stderr=True)
    return track(items, what, total, console=bar, transient=True, disable=not bar.is_terminal)
