"""Small corpora on disk and their settings."""

import gzip
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tests.factories import data_settings, tokenizer_settings
from transformer.data.config import DataSettings

DATA = Path(__file__).parents[2] / "data"
TOY = DATA / "toy"
BPE = tokenizer_settings("bpe", 700)


def recipe(path: Path) -> ModuleType:
    """The program that makes a corpus, as a module."""
    spec = importlib.util.spec_from_file_location(f"recipe_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module by name
    spec.loader.exec_module(module)
    return module


def write(folder: Path, name: str, lines: list[str], end: str = "\n") -> Path:
    path = folder / name
    content = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def settings(folder: Path, **changes: object) -> DataSettings:
    """Settings of a small corpus: the files x.de and x.en in `folder` are all its splits."""
    small: dict[str, object] = dict.fromkeys(("train", "validation", "test"), str(folder / "x"))
    small |= {"directory": str(folder), "cache": str(folder / "cache"), "max_length": 10, "batch_tokens": 64}
    return data_settings(**(small | changes))
