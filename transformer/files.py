"""Files and folders that appear whole or not at all: written, prepared or fetched."""

import errno
import fcntl
import hashlib
import json
import logging
import os
import shutil
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

log = logging.getLogger(__name__)
# What a disk says that is full, over its quota, read-only or failing.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
# The file in a cached folder that holds the sha256 of all others.
DIGESTS = "sha256.json"
# Machines that share a folder have processes of the same number.
HOST = socket.gethostname()


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is flushed to the disk and gets its name at the end: readers see the old one or the new.

    Raises OSError that names `path` when the disk takes no more; the old one then stays as it was.
    """
    partial = path.with_name(f".{path.name}.{HOST}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _flush_folder(path.parent)
    except Exception as error:
        # torch.save speaks of an unexpected position where the disk was full: the cause stands behind its error.
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError) and cause.errno in UNWRITABLE:
            older = " (the one written before is whole)" if path.exists() else ""
            raise OSError(f"{path} cannot be written: {os.strerror(cause.errno)}{older}") from cause
        raise
    finally:
        with suppress(OSError):
            partial.unlink()


def atomic_write(path: Path, content: bytes) -> None:
    with atomic_file(path) as file:
        file.write(content)


def _remove_leftovers(path: Path) -> None:
    """Removes what processes of this machine left that were killed while they wrote `path`."""
    start, end = f".{path.name}.{HOST}.", ".partial"
    for left in path.parent.iterdir():
        process = left.name[len(start) : -len(end)]
        if left.name.startswith(start) and left.name.endswith(end) and process.isdecimal() and not _runs(int(process)):
            with suppress(OSError):
                left.unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _flush_folder(folder: Path) -> None:
    """Makes new names last through a power cut, where the file system knows how."""
    with suppress(OSError):
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def cached_folder(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made by `make` unless it is there and whole; its files lie directly in it.

    It is flushed and renamed into place when done, and processes that want the same one wait for the first. One whose
    files are not those that were made (by their digests) is made again. Raises OSError that names it when the disk
    takes no more.
    """
    if not _is_whole(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_name(f"{folder.name}.lock")):
            # Another process may have made it while this one waited.
            if not _is_whole(folder):
                _make_folder(folder, make)
    return folder


def _make_folder(folder: Path, make: Callable[[Path], None]) -> None:
    for left in folder.parent.glob(f".{folder.name}.*"):
        if left.is_dir():  # of a process that was killed: nobody else has the lock
            shutil.rmtree(left, ignore_errors=True)
    if folder.exists():
        log.warning("%s is damaged: it is made again", folder)
    with atomic_folder(folder) as work:
        make(work)
        (work / DIGESTS).write_text(json.dumps(_digests(work)))


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which is flushed and takes the place of `folder` when all went well, and is gone otherwise.

    Raises OSError that names `folder` when the disk takes no more.
    """
    work = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield work
        for path in work.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        work.chmod(0o755)
        if folder.exists():
            former = work.with_name(f"{work.name}.former")
            folder.replace(former)
            work.replace(folder)
            # Those who have its files open keep what they see.
            shutil.rmtree(former, ignore_errors=True)
        else:
            work.replace(folder)
        _flush_folder(folder.parent)
    except OSError as error:
        # NumPy's own error for a full disk has no number; what a caller cannot find or fetch has a class of its own.
        if type(error) in (OSError, PermissionError):
            raise OSError(f"{folder} cannot be written: {error.strerror or error}") from error
        raise
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / DIGESTS).read_text()) == _digests(folder))
    except (OSError, ValueError, RecursionError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != DIGESTS}


def sha256(path: Path) -> str:
    """The digest of a file, which need not fit in memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def new_folder(folder: Path) -> Path:
    """Makes a folder that nobody else has: `folder`, or with -2, -3 … behind its name what is not there yet."""
    number, candidate = 1, folder
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            number += 1
            candidate = folder.with_name(f"{folder.name}-{number}")


def check_writable(folder: Path) -> None:
    """Raises OSError for a full or read-only disk before a run's work, not after it."""
    probe = folder / ".probe"
    try:
        # As much as a small run leaves behind.
        atomic_write(probe, bytes(64 << 20))
    except OSError as error:
        reason = error.__cause__ or error
        raise OSError(f"the run's folder {folder} cannot be written: {getattr(reason, 'strerror', reason)}") from error
    finally:
        with suppress(OSError):
            probe.unlink()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def download(url: str, path: Path, expected: str) -> None:
    """Fetches a file unless it is there, with a progress bar, and checks what is there against its sha256.

    Raises OSError when it cannot be fetched and ValueError when the bytes are others.
    """

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    try:
        if not path.exists():
            with (
                urllib.request.urlopen(url, timeout=60) as answer,
                atomic_file(path) as file,
                Progress(*columns, console=Console(stderr=True)) as progress,
            ):
                task = progress.add_task(path.name, total=int(answer.headers.get("Content-Length", 0)) or None)
                fetched = hashlib.sha256()
                while block := answer.read(1 << 16):
                    file.write(block)
                    fetched.update(block)
                    progress.advance(task, len(block))
                if fetched.hexdigest() != expected:
                    raise ValueError(f"{url} is not the published file (its sha256 differs): nothing was kept")
    except (urllib.error.URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"{url} cannot be fetched ({reason}): put the files into a folder and say data.directory=FOLDER"
        ) from error
    if sha256(path) != expected:
        raise ValueError(f"{path} is not the published file (its sha256 differs): delete it and try again")
