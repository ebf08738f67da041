"""Fetches a corpus that has a public home, or runs the project's own recipe for it."""

import hashlib
import http.client
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from transformer.data.text_files import is_table
from transformer.files import BUNDLED_CORPUS, DIGESTS, LIBREOFFICE_HELP, atomic_file, cached_folder, sha256, sha256_of
from transformer.printing import console

# For each value of `data.url`: a program that makes the corpus, and the folder with its source files (None: it fetches
# them, once). Settings choose one of these; they cannot name a program or path of their own.
RECIPES: dict[str, tuple[Path, Path | None]] = {
    "apt:libreoffice-help": (LIBREOFFICE_HELP / "make.py", None),
    "grammar:toy_little": (BUNDLED_CORPUS / "little.py", BUNDLED_CORPUS),
}
TIMEOUT = 60  # seconds without a byte


def run_recipe(recipe: Path, made_of: Path | None, folder: Path, languages: tuple[str, str]) -> None:
    """Makes `folder` with a corpus' recipe, which is a program, unless it exists; whole or not at all. It is made again
    if a file of the folder `made_of` has changed.

    A user's own folder, which has no digests, stays unchanged. Raises OSError with the last line that the recipe wrote.
    """
    if folder.exists() and not (folder / DIGESTS).exists():
        return

    def make(work: Path) -> None:
        command = [sys.executable, str(recipe), "--output", str(work), "--", *languages]
        process = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
        if process.returncode:
            lines = process.stderr.strip().splitlines() or [f"{recipe} ended with status {process.returncode}"]
            raise ChildProcessError(lines[-1])

    cached_folder(folder, make, made_of=sha256_of([made_of]) if made_of else None)


def _opened(url: str) -> Any:
    try:
        return urllib.request.urlopen(url, timeout=TIMEOUT)
    except ValueError as error:
        raise urllib.error.URLError("data.url is no address: it must begin with https://") from error


def download(url: str, path: Path, expected: str) -> None:
    """Downloads a file unless it exists, with a progress bar, and checks its sha256.

    (torch.hub.download_url_to_file is not used because it waits forever if a connection stalls.)
    Raises OSError if the download fails and ValueError for a wrong sha256.
    """
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), DownloadColumn(), TimeRemainingColumn())
    try:
        if not path.exists():
            with (
                _opened(url) as response,
                atomic_file(path) as file,
                Progress(*columns, console=console(stderr=True)) as progress,
            ):
                task = progress.add_task(path.name, total=int(response.headers.get("Content-Length", 0)) or None)
                digest = hashlib.sha256()
                while block := response.read(1 << 16):
                    file.write(block)
                    digest.update(block)
                    progress.advance(task, len(block))
                if (length := response.headers.get("Content-Length")) and file.tell() < int(length):
                    raise TimeoutError(f"the connection ended after {file.tell():,} of {int(length):,} bytes")
                if digest.hexdigest() != expected:
                    raise ValueError(f"{url} is not the published file (its sha256 differs): nothing was kept")
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error).strip() or type(error).__name__
        raise OSError(
            f"{url} cannot be fetched ({reason}): put {path.name} into {path.parent} or another data.directory=; "
            "data=files is for a corpus of your own"
        ) from error
    if sha256(path) != expected:
        raise ValueError(f"{path} is not the published file (its sha256 differs): delete it and try again")


def fetch_corpus(url: str | None, folder: Path, digests: dict[str, str], languages: tuple[str, str]) -> None:
    """Puts the corpus of `url` into `folder`: downloads missing files of `digests`, or runs a recipe.

    Of files in one language only those in `languages` are downloaded; tables always are. Raises OSError if that fails
    and ValueError for a wrong sha256.
    """
    if url in RECIPES:
        run_recipe(*RECIPES[url], folder, languages)
    for name, typed in digests.items():
        if not is_table(name) and not any(f".{language}." in f"{name}." for language in languages):
            continue
        digest = typed.lower()  # Windows shows digests in capital letters
        if url is not None:
            download(f"{url}/{name}", folder / name, digest)
        elif not (folder / name).exists():
            raise FileNotFoundError(f"data.sha256 names {folder / name}: put it there, or give its data.url")
        elif sha256(folder / name) != digest:
            raise ValueError(
                f"{folder / name} has another sha256 than in data.sha256: replace the file, or correct data.sha256"
            )
