"""The output of translations: stdout, or a file with a temporary name, so that a stopped command can be resumed.

FILE.partial has the translations so far; FILE.partial.json has the progress and the settings.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

from transformer.config import UsageError, flatten, from_dict, shown
from transformer.files import (
    atomic_write,
    exclusive_lock,
    flush_folder,
    is_written_through,
    open_through,
    sha256_of,
)
from transformer.printing import say, shell_path


def made_by(settings: dict[str, Any], *models: Path) -> dict[str, str]:
    """Everything that the translations depend on: the models (files, or an export's folder) and the settings."""
    return {"model": sha256_of(models)} | {key: shown(value) for key, value in flatten(settings)}


AnyPartialOutput = TypeVar("AnyPartialOutput", bound="PartialOutput")


@dataclass(frozen=True)
class PartialState:
    """The progress of a partial file: the finished lines of the input, their digest, and the bytes of their
    translations."""

    lines: int
    input_sha256: str
    bytes: int
    made_by: dict[str, str]


class Output:
    """Translations to stdout, or to a path that is no regular file; `lines` counts the finished lines of the input."""

    def __init__(self, path: str | None) -> None:
        self.path, self.lines = path, 0

    def __enter__(self) -> "Output":
        self._file: BinaryIO = sys.stdout.buffer if self.path is None else open_through(Path(self.path))
        return self

    @property
    def is_terminal(self) -> bool:
        return self._file.isatty()

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None) -> None:
        if self.path is not None:
            with contextlib.suppress(OSError) if error else contextlib.nullcontext():  # closing may repeat the error
                self._file.close()

    def is_finished(self) -> bool:
        return False

    def skip(self, lines: Iterator[str]) -> None:
        """Skips the finished lines."""

    def write(self, sources: list[str], translations: str) -> None:
        """Adds the translations of the lines `sources`."""
        try:
            self._file.write(translations.encode())
            self._file.flush()
        except OSError as error:
            error.filename = self.path or "stdout"  # the system's error has no file name
            raise
        self.lines += len(sources)


class PartialOutput(Output):
    """Translations to a file that gets its name when it is complete; until then, finished lines are kept.

    With `resume` it continues after the kept lines. The lines of a chunk are translated together and written together,
    so the result is the same as without a stop.
    """

    def __init__(self, path: str, made_by: dict[str, str], resume: bool) -> None:
        """`made_by` are the settings and the model; UsageError if the stopped translation was made with others. If
        there is none, a new one begins."""
        super().__init__(os.path.realpath(path))  # a link is followed
        self._final = Path(str(self.path))
        self._partial = self._final.with_name(f"{self._final.name}.partial")
        self._state_file = self._final.with_name(f"{self._final.name}.partial.json")
        self._shown = shell_path(self._partial)
        self._before: PartialState | None = None
        self._kept = 0  # finished lines, to resume after
        self._made_by, self._input = made_by, hashlib.sha256()
        for file in (self._partial, self._state_file):
            if file.is_symlink():  # nobody has chosen its target
                raise UsageError(f"{shell_path(file)} is a link, and its target would be overwritten: remove it")
        is_stopped = self._is_stopped()
        self._may_be_whole = resume and not is_stopped
        if resume and is_stopped:
            self._before = self._read_state()
            for key, value in made_by.items():
                if (former := self._before.made_by.get(key)) != value:
                    of_files = {"model": "by another model", "corpus": "with another corpus"}  # without their digests
                    how = of_files.get(key, f"with {key.rpartition('.')[2]} {former}")
                    raise UsageError(f"--resume: {self._shown} was made {how}: give the same, or leave out --resume")
            if not self._before.lines:  # it was killed in its first chunk: there is nothing to resume
                self._before = None
        elif is_stopped:
            with self._locked():  # an error if another process is still writing it
                state = self._read_state()
            if state.lines:
                raise UsageError(
                    f"{self._shown} is a stopped translation: --resume continues it; or delete {self._state_file.name}"
                )
        elif self._partial.exists():
            raise UsageError(
                f"{self._shown} exists, is not a translation of this program, and would be overwritten: remove it"
            )

    def _is_stopped(self) -> bool:
        """Whether there is a stopped translation. A state without a partial file comes from a process that was killed
        before its first line or after its last line."""
        return self._state_file.exists() and self._partial.exists()

    def is_finished(self, files: Sequence[Path] = ()) -> bool:
        """Whether there is nothing to resume because the files (by default the output) are complete; if so, says it."""
        finished = self._may_be_whole and all(file.exists() for file in files or [self._final])
        if finished:
            names = ", ".join(map(shell_path, files or [self._final]))
            say(f"--resume: nothing is left to do, {names} is complete; without --resume it would be made again")
        return finished

    def _read_state(self) -> PartialState:
        try:
            state = from_dict(PartialState, json.loads(self._state_file.read_bytes()), "")
            if state.lines and self._partial.stat().st_size < state.bytes:
                raise ValueError("it is shorter than it was")
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{self._shown} is damaged ({error}): delete {self._state_file.name}") from error
        return state

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """A lock for one process at a time."""
        lock = self._final.with_name(f".{self._final.name}.lock")
        with exclusive_lock(lock, str(self._final)):
            try:
                yield
            finally:
                # Removed while it is held, so that no other process has it. On Windows only the lock itself may do
                # that.
                with contextlib.suppress(PermissionError):
                    lock.unlink(missing_ok=True)

    def __enter__(self: AnyPartialOutput) -> AnyPartialOutput:
        self._final.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as entered:
            entered.enter_context(self._locked())
            with self._errors():
                if self._before is None:  # the state marks the partial file as one of this program
                    self._write_state(0)
                self._file = self._partial.open("r+b" if self._before else "wb")
            self._lock = entered.pop_all()
        return self

    def skip(self, lines: Iterator[str]) -> None:
        if self._before is None:
            return
        for _ in range(self._before.lines):
            self._input.update(f"{next(lines, '')}\n".encode())
        if self._input.hexdigest() != self._before.input_sha256:
            raise ValueError(f"--resume: the first {self._before.lines:,} lines are not those of {self._shown}")
        self._file.truncate(self._before.bytes)  # removes a chunk that was not written completely
        self._file.seek(self._before.bytes)
        self.lines = self._kept = self._before.lines

    def write(self, sources: list[str], translations: str) -> None:
        with self._errors():
            super().write(sources, translations)
            os.fsync(self._file.fileno())
            self._input.update("".join(f"{source}\n" for source in sources).encode())
            self._write_state(self._file.tell())
            self._kept = self.lines

    def _write_state(self, length: int) -> None:
        state = PartialState(self.lines, self._input.hexdigest(), length, self._made_by)
        atomic_write(self._state_file, json.dumps(asdict(state)).encode())

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None) -> None:
        with self._lock:
            if kind is None:
                with self._errors():
                    self._file.close()
                self._finish()
            else:
                with contextlib.suppress(OSError):  # lines that a full disk did not take are not kept
                    self._file.close()
                if self._kept:
                    say(f"{self._kept:,} lines are kept in {self._shown}: --resume continues")
                if self._kept or self._before:
                    return
            for left in (self._partial, self._state_file):
                left.unlink(missing_ok=True)

    def _finish(self) -> None:
        """Gives the complete file its name."""
        self._partial.replace(self._final)
        flush_folder(self._final.parent)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(f"{self._shown} cannot be written: {error.strerror or error}") from error


def open_output(path: str | None, settings: dict[str, Any], models: Sequence[Path], resume: bool) -> Output:
    """The output for `--output` and `--resume`, for translations by `models` (files, or an export's folder).

    Raises UsageError without `resume` if there is a stopped translation, and with it if that was made with other
    settings or another model.
    """
    if path is None or is_written_through(Path(path)):
        if resume:
            raise UsageError("--resume continues a file: give the --output of the stopped command")
        return Output(path)
    return PartialOutput(path, made_by(settings, *models), resume)
