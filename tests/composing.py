"""Has Hydra parse each YAML text and each interpolation once a process: a third of the time to compose settings.

Tests compose them a thousand times. A file is still read each time; what is remembered is what its text means.
"""

import functools
import io
import pickle
from pathlib import Path
from typing import IO

import omegaconf.base
from omegaconf import DictConfig, ListConfig, OmegaConf

_load = OmegaConf.load


class Named(io.StringIO):
    """The text of a file, whose name is in the errors of YAML."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def parse_once() -> None:
    OmegaConf.load = staticmethod(_load_once)  # type: ignore[method-assign]
    omegaconf.base.parse = functools.lru_cache(1000)(omegaconf.base.parse)  # type: ignore[attr-defined]


def _load_once(file: str | Path | IO[str]) -> DictConfig | ListConfig:
    if isinstance(file, str | Path):
        return pickle.loads(_parsed(Path(file).read_text(encoding="utf-8"), str(file)))
    return pickle.loads(_parsed(file.read(), getattr(file, "name", "<file>")))


@functools.lru_cache(1000)
def _parsed(text: str, name: str) -> bytes:
    return pickle.dumps(_load(Named(text, name)))
