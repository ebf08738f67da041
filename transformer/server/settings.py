"""The settings of a server, checked before a model is loaded."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from transformer.config import UsageError
from transformer.device import MachineSettings
from transformer.inference.search import SearchSettings

PACKAGES = ("starlette", "uvicorn", "python_multipart")
MAX_KEY_BYTES = 1024
# A character takes at most 12 bytes: two \uXXXX in JSON, four %XX in a form.
MAX_CHARACTER_BYTES, OTHER_BYTES = 12, 4096


@dataclass(frozen=True)
class ServerSettings:
    """configs/serve.yaml explains each. `page=None` offers the page unless a key is asked for."""

    host: str
    port: Annotated[int, ">= 0", "<= 65535"]
    api_key_file: str | None
    page: bool | None
    max_characters: Annotated[int, ">= 1", "<= 10000000"]
    max_waiting: Annotated[int, ">= 1", "<= 100000"]
    timeout: Annotated[float, "> 0", "<= 86400"]
    device: str
    precision: str | None
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"] | None
    split_lines: Literal["sentences", "long"]
    search: SearchSettings
    machine: MachineSettings

    @property
    def max_bytes(self) -> int:
        """Of the body of a request."""
        return OTHER_BYTES + MAX_CHARACTER_BYTES * self.max_characters

    @property
    def is_local(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")


def check_installed() -> None:
    """Raises UsageError where the libraries of the extra are missing."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"{package} is not installed: pip install -e '.[serve]'")


def read_key(file: str | None) -> bytes | None:
    """The key in a file of one line; None without a file."""
    if file is None:
        return None
    try:
        if not Path(file).is_file():
            raise UsageError(f"api_key_file={file}: no such file")
        with Path(file).open("rb") as opened:
            content = opened.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"api_key_file={file}: {error.strerror}") from error
    key = content.strip()
    if not key or b"\n" in key or len(content) > MAX_KEY_BYTES or not key.isascii():
        raise UsageError(
            f"api_key_file={file} must hold the key on one line: ASCII characters, at most {MAX_KEY_BYTES:,}"
        )
    return key
