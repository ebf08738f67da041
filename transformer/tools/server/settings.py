"""The settings of a server, read without torch."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from transformer.config import PATH, Settings, UsageError, setting
from transformer.inference.settings import InferenceSettings, Precision

PACKAGES = ("starlette", "uvicorn", "python_multipart")
MAX_KEY_BYTES = 1024
# A character takes at most 12 bytes: two \uXXXX in JSON, four %XX in a form.
MAX_CHARACTER_BYTES, OTHER_BYTES = 12, 4096


@dataclass(frozen=True)
class ServerSettings(Settings):
    """The address of a server, its clients, its limits, and how its models translate."""

    port: Annotated[int, ">= 0", "<= 65535"] = 5000
    """0: any free port"""
    host: str = "127.0.0.1"
    """127.0.0.1: only this machine can connect | 0.0.0.0: every machine that can reach this one"""
    allowed_host: list[str] = setting([])
    """if only this machine can connect: a further name of the server, for example behind a proxy. Requests with other
    names are refused, because a web page could give 127.0.0.1 a name of its own"""
    api_key_file: Annotated[str, PATH] | None = None
    """a file with a key on one line; then every request to translate must have this key"""
    page: bool | None = None
    """whether / shows a page that translates and contains the whole model; by default yes, unless there is a key"""
    max_characters: Annotated[int, ">= 1", "<= 10000000"] = 10000
    """of all texts of a request together"""
    max_waiting: Annotated[int, ">= 1", "<= 100000"] = 256
    """the number of waiting requests; further ones are refused with status 429"""
    timeout: Annotated[float, "> 0", "<= 86400"] = 60.0
    """seconds for a request to arrive, and again for its translation"""
    split_lines: Literal["sentences", "long"] = "sentences"
    """which lines are translated sentence by sentence: sentences (all) | long (only those with more tokens than the
    model allows)"""
    device: str = "auto"
    """auto (a GPU if there is one) | cpu | cuda | cuda:1 | mps"""
    precision: Precision | None = None
    """auto | float32 | bfloat16 | float16; by default float32, because then the translation of a text does not depend
    on the other texts of its batch; for an export its own"""
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"] | None = None
    """sentences × longest source of a batch; by default 2048, on a GPU 8192"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inference(of_export=False)  # this checks the device

    def inference(self, of_export: bool) -> InferenceSettings:
        """How a model, or an export, translates. Only with float32 the translation of a text does not depend on other
        requests; an export keeps its own precision."""
        precision = self.precision or ("auto" if of_export else "float32")
        return InferenceSettings(self.device, precision, self.batch_tokens)

    @property
    def max_bytes(self) -> int:
        """The largest body of a request."""
        return OTHER_BYTES + MAX_CHARACTER_BYTES * self.max_characters

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names that a request may use for the server; None: any."""
        return frozenset(("127.0.0.1", "[::1]", "localhost", *self.allowed_host)) if self.is_local else None

    @property
    def is_local(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")


def check_installed() -> None:
    """Raises UsageError if the libraries of the extra are missing."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"{package} is not installed: pip install -e '.[serve]'")


def read_key(file: str | None) -> bytes | None:
    """The key in a file of one line; None without a file."""
    if file is None:
        return None
    try:
        if not Path(file).is_file():
            raise UsageError(f"--api-key-file {file}: no such file")
        with Path(file).open("rb") as opened:
            content = opened.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--api-key-file {file}: {error.strerror}") from error
    key = content.strip()
    if not key or b"\n" in key or len(content) > MAX_KEY_BYTES or not key.isascii():
        raise UsageError(
            f"--api-key-file {file} must have the key on one line: ASCII characters, at most {MAX_KEY_BYTES:,}"
        )
    return key
