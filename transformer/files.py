"""Files and folders that are written whole or not at all, and locks between processes."""

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
# The files that mark other folders with a model: an export has the first, a folder of Hugging Face the second.
EXPORT_MANIFEST, HUGGINGFACE_TOKENIZER = "export.json", "tokenizer_config.json"
# The file in a cached folder with the sha256 of all its files, and of the files that they were made from.
DIGESTS = "sha256.json"
# Marks a folder as a cache of this program (https://bford.info/cachedir).
CACHE_TAG = "CACHEDIR.TAG"
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# Prepared corpora of transformer-translator.\n"
# Two machines that share a folder may have processes with the same number.
HOST = socket.gethostname()
# Folders beside the package in the project's folder, or within the package if it was installed from a wheel.
CONFIGS, BUNDLED_CORPUS, LIBREOFFICE_HELP = (
    next(path for path in (Path(__file__).parent / name, Path(__file__).parents[1] / name) if path.is_dir())
    for name in ("configs", "data/toy", "data/libreoffice_help")
)
MAX_BYTES = 1 << 20  # the largest file of settings or results; usually it has some thousand bytes


def expanded(path: str) -> Path:
    """A path with a home folder in place of ~; unchanged if the user is not known."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  (pathlib's has an error there)


def read_blocks(path: Path) -> Iterator[bytes]:
    """A file in blocks: it need not fit into memory."""
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for block in read_blocks(path):
        digest.update(block)
    return digest.hexdigest()


def sha256_of(paths: Iterable[Path]) -> str:
    """The digests of files, and of all files in a folder, separated by spaces."""
    files = [sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path] for path in paths]
    return " ".join(map(sha256, chain.from_iterable(files)))


def cache_key(parts: list[Any]) -> str:
    """A short name for plain data that describe a cached folder: other data give another name."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


# ---- files


def read_file(path: Path, max_bytes: int = MAX_BYTES, follow_links: bool = False) -> bytes:
    """Reads a regular file of at most `max_bytes`; OSError or ValueError for anything else."""
    if path.is_symlink() and not follow_links:
        raise ValueError(f"{path} cannot be read: it is a link")
    # O_NONBLOCK, because opening a FIFO would wait for its writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            raise ValueError(f"{path} cannot be read: it is no file of at most {max_bytes:,} bytes")
        return file.read()


def read_json(path: Path, max_bytes: int = MAX_BYTES, follow_links: bool = False) -> dict[str, Any]:
    """Reads a JSON object from a regular file; ValueError with the file's name if there is none."""
    text = read_file(path, max_bytes, follow_links)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} cannot be read: it is not a JSON object")
    return content


def flush_folder(folder: Path) -> None:
    """Makes new names survive a power cut, if the system can do that (Windows cannot open a folder)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # not known: on Windows the signal below would stop it
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
            error.filename = str(path)  # the file to be written, not the temporary one
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
    """Opens a path of `is_written_through` for appending, because a shell may have written to its file already. A
    stream of this process (/dev/stdout) is written at its present position, which moves on, so that later output
    follows."""
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
    """Whether a path cannot be replaced by a new file: it is no regular file (a pipe), or a stream that a shell may
    have redirected to one (/dev/stdout)."""
    is_stream = path.is_relative_to("/dev/fd") or path in (Path("/dev/stdout"), Path("/dev/stderr"))
    return is_stream or (path.exists() and not path.is_file())


def _may_be_of(path: Path, error: OSError) -> bool:
    """Whether an error may be about this file: it names the file, one beside it, a folder above, or none."""
    folder, name = Path(os.path.realpath(path)).parent, error.filename
    return name in (None, str(path)) or folder.is_relative_to(str(name)) or Path(str(name)).parent == folder


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write. It is flushed to the disk and gets its name at the end, so readers see the old file or the new.

    If `path` is a link, the file that it points to is replaced. A pipe or /dev/stdout is written directly. Raises
    OSError that names `path` if the disk is full; the old file then stays unchanged.
    """
    try:
        with _file_itself(path) if is_written_through(path) else _replacement(Path(os.path.realpath(path))) as file:
            yield file
    except Exception as error:
        # If the disk is full, torch.save reports an unexpected position: the cause is the context of its error.
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError) and cause.errno in UNWRITABLE and _may_be_of(path, cause):
            older = " (the old file is undamaged)" if path.is_file() else ""
            raise OSError(f"{path} cannot be written: {os.strerror(cause.errno)}{older}") from cause
        raise


def atomic_write(path: Path, content: bytes) -> None:
    """Writes a whole file at once: see `atomic_file`."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, content: Any) -> None:
    """Writes JSON for `read_json`, whole or not at all."""
    atomic_write(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


# ---- locks


@contextmanager
def exclusive_lock(path: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Holds the lock file `path`. If another process holds it, waits (with `wait`) or raises OSError; also raises
    OSError if the file cannot be made. The message names `what`.

    The lock always ends with its process; the file may stay.
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
    """Makes the folder of a run; raises OSError for a full or read-only disk before the work begins."""
    small_run = 64 << 20  # bytes that a small run needs
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(probe.fileno(), 0, small_run)  # reserves the space without writing
            else:
                probe.write(bytes(small_run))
                probe.flush()
    except OSError as error:
        needed = f" (a run needs {small_run >> 20} MB)" if error.errno == errno.ENOSPC else ""
        raise OSError(f"the run's folder {folder} cannot be written: {error.strerror or error}{needed}") from error


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill. At the end it is flushed and replaces `folder`; after an error it is removed.

    If `folder` is a link, the folder that it points to is replaced. Raises OSError that names `folder` if the disk is
    full.
    """
    work, asked, folder = None, folder, Path(os.path.realpath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield work
        for path in work.iterdir():
            with path.open("rb+") as file:  # Windows flushes only files that are open for writing
                os.fsync(file.fileno())
        work.chmod(0o755)
        if folder.exists():
            former = work.with_name(f"{work.name}.former")
            folder.replace(former)
            work.replace(folder)
            # Processes that have its files open keep them.
            shutil.rmtree(former, ignore_errors=True)
        else:
            work.replace(folder)
        flush_folder(folder.parent)
    except OSError as error:
        # NumPy's error for a full disk has no number; errors for missing files and downloads have other classes.
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
        # Regular files only: reading a pipe would wait forever.
        return all(map(Path.is_file, folder.iterdir())) and read_json(folder / DIGESTS) == _digests(folder, made_of)
    except (OSError, ValueError, RecursionError):
        return False


def _make_folder(folder: Path, make: Callable[[Path], None], made_of: str | None) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        if leftover.is_dir():  # left by a killed process, because only this one has the lock
            shutil.rmtree(leftover, ignore_errors=True)
    if folder.exists():
        log.warning("%s is damaged%s: it is built again", folder, " or out of date" if made_of else "")
    with atomic_folder(folder) as work:
        make(work)
        (work / DIGESTS).write_text(json.dumps(_digests(work, made_of)))


def cached_folder(folder: Path, make: Callable[[Path], None], made_of: str | None = None) -> Path:
    """`folder`, made by `make` unless it exists and is undamaged; it has no folders in it. `made_of`: the digests of
    the files from which it is made, if its name does not depend on them; with other digests it is made again.

    It is flushed and gets its name at the end, and other processes wait for the first one. A folder with changed files
    (by their digests) is made again. Raises OSError that names it if the disk is full.
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
