"""Files and folders that appear whole or not at all, and locks between processes."""

import errno
import hashlib
import json
import logging
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)
# The errors of a disk that is full, over its quota, read-only or failing.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
# What tells other folders with a model: an export has the first file, one of Hugging Face's transformers the second.
EXPORT_MANIFEST, HUGGINGFACE_TOKENIZER = "export.json", "tokenizer_config.json"
# The file in a cached folder that holds the sha256 of all others, and of what they were made of.
DIGESTS = "sha256.json"
# Marks a folder as a cache of this program (https://bford.info/cachedir).
CACHE_TAG = "CACHEDIR.TAG"
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# Prepared corpora of transformer-translator.\n"
# Two machines that share a folder may have processes of the same number.
HOST = socket.gethostname()
# What lies beside the package in the project's folder, and within it where it was installed from a wheel.
CONFIGS, BUNDLED_CORPUS, LIBREOFFICE_HELP = (
    next(path for path in (Path(__file__).parent / name, Path(__file__).parents[1] / name) if path.is_dir())
    for name in ("configs", "data/toy", "data/libreoffice_help")
)
MAX_BYTES = 1 << 20  # of a file of settings or results, which takes some thousand


def expanded(path: str) -> Path:
    """A path with a home folder in place of ~; of a user who is not known, it stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  (pathlib's has an error there)


def read_blocks(path: Path) -> Iterator[bytes]:
    """A file in pieces: it need not fit in memory."""
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for block in read_blocks(path):
        digest.update(block)
    return digest.hexdigest()


def sha256_of(paths: Iterable[Path]) -> str:
    """The digests of files, and of all files in a folder, with spaces between."""
    files = [sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path] for path in paths]
    return " ".join(map(sha256, chain.from_iterable(files)))


def cache_key(parts: list[Any]) -> str:
    """A short name for what plain data describe: a cached folder with another name was made of something else."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


# ---- files


def read_file(path: Path, max_bytes: int = MAX_BYTES, follow_links: bool = False) -> bytes:
    """Read a regular file of at most so many bytes; OSError or ValueError for anything else."""
    if path.is_symlink() and not follow_links:
        raise ValueError(f"{path} cannot be read: it is a link")
    # Not blocking: opening a FIFO would wait for its writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            raise ValueError(f"{path} cannot be read: it is no file of at most {max_bytes:,} bytes")
        return file.read()


def read_json(path: Path, max_bytes: int = MAX_BYTES, follow_links: bool = False) -> dict[str, Any]:
    """Read an object of JSON from a regular file; ValueError that names it where there is none."""
    text = read_file(path, max_bytes, follow_links)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} cannot be read: it is no object of JSON")
    return content


def flush_folder(folder: Path) -> None:
    """Makes new names last through a power cut, where the system can (Windows cannot open a folder)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # nobody knows: asking by a signal, as below, would stop it there
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _remove_leftovers(path: Path) -> None:
    """Removes the partial files of processes of this machine that were killed while they wrote `path`."""
    start, end = f".{path.name}.{HOST}.", ".partial"
    for file in path.parent.iterdir():
        process = file.name.removeprefix(start).removesuffix(end)
        if file.name == f"{start}{process}{end}" and process.isdecimal() and not _is_running(int(process)):
            with suppress(OSError):
                file.unlink()


@contextmanager
def _replacement(path: Path) -> Iterator[BinaryIO]:
    partial = path.with_name(f".{path.name}.{HOST}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        try:
            opened = partial.open("wb")
        except OSError as error:
            error.filename = str(path)  # what was asked for, not the file that takes its place
            raise
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        flush_folder(path.parent)
    finally:
        with suppress(OSError):
            partial.unlink()


def open_through(path: Path) -> BinaryIO:
    """Opens what is written through, to add to what a shell has sent to its file already. A stream of this process
    (/dev/stdout) is written where it stands, and moved on: who writes to it next does not write over this."""
    number = {"/dev/stdout": "1", "/dev/stderr": "2"}.get(path.as_posix())
    if path.parent == Path("/dev/fd"):
        number = path.name
    if number is None or not number.isdecimal():
        return path.open("ab")
    try:
        return os.fdopen(os.dup(int(number)), "wb")
    except OSError as error:
        error.filename = str(path)
        raise


@contextmanager
def _file_itself(path: Path) -> Iterator[BinaryIO]:
    with open_through(path) as file:
        yield file
        file.flush()


def is_written_through(path: Path) -> bool:
    """Whether this is no regular file, such as a pipe, or a stream that a shell may have sent to one (/dev/stdout), so
    that nothing can take its place."""
    is_stream = path.is_relative_to("/dev/fd") or path in (Path("/dev/stdout"), Path("/dev/stderr"))
    return is_stream or (path.exists() and not path.is_file())


def _may_be_of(path: Path, error: OSError) -> bool:
    """Whether an error is of this file, as far as it says: of the file, of one beside it, or of a folder above."""
    folder, name = Path(os.path.realpath(path)).parent, error.filename
    return name in (None, str(path)) or folder.is_relative_to(str(name)) or Path(str(name)).parent == folder


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is flushed to the disk and gets its name at the end: readers see the old one or the new.

    A link is followed: the file that it names is replaced. What is no regular file (a pipe, /dev/stdout) is written
    through. Raises OSError that names `path` when the disk takes no more; the old file then stays as it was.
    """
    try:
        with _file_itself(path) if is_written_through(path) else _replacement(Path(os.path.realpath(path))) as file:
            yield file
    except Exception as error:
        # torch.save complains of an unexpected position where the disk was full: the cause stands behind its error.
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError) and cause.errno in UNWRITABLE and _may_be_of(path, cause):
            older = " (the one written before is whole)" if path.is_file() else ""
            raise OSError(f"{path} cannot be written: {os.strerror(cause.errno)}{older}") from cause
        raise


def atomic_write(path: Path, content: bytes) -> None:
    """Writes a whole file at once: see `atomic_file`."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, content: Any) -> None:
    """Writes what `read_json` reads, whole or not at all."""
    atomic_write(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


# ---- locks


@contextmanager
def exclusive_lock(path: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Holds the lock file `path`. When another process holds it, waits for that one (`wait`) or raises OSError at once;
    so it does when no file can be made there. Its message names `what`.

    However a process ends, its lock ends with it; the file may stay.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=wait)
    except Timeout as error:
        if path.exists():
            raise OSError(f"{what} is in use by another process (which holds {path})") from error
        raise OSError(f"{what} cannot be written: no file can be made in {path.parent}") from error
    except OSError as error:
        raise OSError(f"{what} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


# ---- folders


def check_writable(folder: Path) -> None:
    """Makes the folder of a run; raises OSError for a full or read-only disk before the work, not after it."""
    small_run = 64 << 20  # bytes: as much as it leaves behind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(probe.fileno(), 0, small_run)  # takes the room without writing
            else:
                probe.write(bytes(small_run))
                probe.flush()
    except OSError as error:
        needed = f" (a run needs {small_run >> 20} MB)" if error.errno == errno.ENOSPC else ""
        raise OSError(f"the run's folder {folder} cannot be written: {error.strerror or error}{needed}") from error


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which is flushed and takes the place of `folder` when all went well, and is gone otherwise.

    A link is followed: the folder that it names is replaced. Raises OSError that names `folder` when the disk takes no
    more.
    """
    work, asked, folder = None, folder, Path(os.path.realpath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield work
        for path in work.iterdir():
            with path.open("rb+") as file:  # Windows flushes only what is open for writing
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
        flush_folder(folder.parent)
    except OSError as error:
        # NumPy's own error for a full disk has no number; a file not found or not fetched has a class of its own.
        if type(error) in (OSError, PermissionError):
            raise OSError(f"{asked} cannot be written: {error.strerror or error}") from error
        raise
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _digests(folder: Path, made_of: str | None) -> dict[str, str]:
    digests = {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != DIGESTS}
    return digests | ({} if made_of is None else {"made of": made_of})


def _is_whole(folder: Path, made_of: str | None) -> bool:
    try:
        # Reading a pipe would wait for ever.
        return all(map(Path.is_file, folder.iterdir())) and read_json(folder / DIGESTS) == _digests(folder, made_of)
    except (OSError, ValueError, RecursionError):
        return False


def _make_folder(folder: Path, make: Callable[[Path], None], made_of: str | None) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        if leftover.is_dir():  # of a process that was killed: nobody else has the lock
            shutil.rmtree(leftover, ignore_errors=True)
    if folder.exists():
        log.warning("%s is damaged%s: it is built again", folder, " or out of date" if made_of else "")
    with atomic_folder(folder) as work:
        make(work)
        (work / DIGESTS).write_text(json.dumps(_digests(work, made_of)))


def cached_folder(folder: Path, make: Callable[[Path], None], made_of: str | None = None) -> Path:
    """`folder`, made by `make` unless it is there and whole; its files lie directly in it. `made_of`: the digests of
    what it is made of, where its name does not tell; with others it is made again.

    It is flushed and renamed into place when done, and processes that want the same one wait for the first. One whose
    files are not those that were made (by their digests) is made again. Raises OSError that names it when the disk
    takes no more.
    """
    if not _is_whole(folder, made_of):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            # Another process may have made it while this one waited.
            if not _is_whole(folder, made_of):
                _make_folder(folder, make, made_of)
    return folder


def mark_cache(folder: Path) -> None:
    """Marks a folder of prepared corpora as one that backups can leave out (CACHEDIR.TAG)."""
    if folder.is_dir() and not (folder / CACHE_TAG).exists():
        atomic_write(folder / CACHE_TAG, CACHE_SIGNATURE)
