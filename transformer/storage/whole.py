"""Files and folders that appear whole or not at all: written, prepared or fetched."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is flushed to the disk and gets its name at the end: readers see the old one or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def cached_folder(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made by `make` unless it is there. Whole or not at all: it is renamed into place when done, and
    processes that want the same one wait for the first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            work = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
            try:
                make(work)
                work.chmod(0o755)
                work.replace(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder


def check_writable(folder: Path) -> None:
    """Raises OSError for a full or read-only disk before a run's work, not after it."""
    probe = folder / f".{os.getpid()}.probe"
    try:
        # As much as a small run leaves behind.
        write_whole(probe, bytes(64 << 20))
    except OSError as error:
        raise OSError(f"the run's folder {folder} cannot be written: {error.strerror or error}") from error
    finally:
        probe.unlink(missing_ok=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def download(url: str, path: Path, sha256: str) -> None:
    """Fetches a file unless it is there, with a progress bar, and checks what is there against its digest.

    Raises OSError when it cannot be fetched and ValueError when the bytes are others.
    """

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    try:
        if not path.exists():
            with (
                urllib.request.urlopen(url, timeout=60) as answer,
                whole_file(path) as file,
                Progress(*columns, console=Console(stderr=True)) as progress,
            ):
                task = progress.add_task(path.name, total=int(answer.headers.get("Content-Length", 0)) or None)
                fetched = hashlib.sha256()
                while block := answer.read(1 << 16):
                    file.write(block)
                    fetched.update(block)
                    progress.advance(task, len(block))
                if fetched.hexdigest() != sha256:
                    raise ValueError(f"{url} is not the published file (its sha256 differs): nothing was kept")
    except (urllib.error.URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"{url} cannot be fetched ({reason}): put the files into a folder and say data.directory=FOLDER"
        ) from error
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(f"{path} is not the published file (its sha256 differs): delete it and try again")
