"""Where a corpus with a public home comes from."""

from pathlib import Path

from transformer.data import libreoffice_help
from transformer.files import download


def fetch(url: str | None, folder: Path, sha256: dict[str, str], languages: tuple[str, str]) -> None:
    """Downloads from `url` what is missing in `folder` of the files named with their sha256, or makes a corpus there.

    Raises OSError when it cannot be had and ValueError when the bytes are not the published ones.
    """
    if url == "apt:libreoffice-help":
        libreoffice_help.make(folder, *languages)
    for name, digest in sha256.items():
        if any(f".{language}" in name for language in languages):
            download(f"{url}/{name}", folder / name, digest)
