"""The folder of an export: the other program's files, our tokenizers, and a manifest with a digest of each.

It stands alone, and nothing in it is unpickled. The engine's own file is read by the engine's own code, which is not
written for files from strangers: its digest shows damage, not intent.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformer.config import from_dict
from transformer.data.tokenizer import Tokenizer
from transformer.files import EXPORT_MANIFEST, atomic_folder, read_file, read_json, sha256
from transformer.inference import model_file
from transformer.inference.translator import Translator
from transformer.printing import one_line, terminal_safe
from transformer.tools.export.formats import MAX_MANIFEST_BYTES, check_replaceable

# SentencePiece's own format: programs in other languages read it too.
TOKENIZERS = ("source.spm", "target.spm")
MAX_TOKENIZER_BYTES = 64 << 20  # a vocabulary of 32,000 takes one
Program = Literal["ctranslate2", "huggingface", "onnx"]


@dataclass(frozen=True)
class Manifest:
    """What an export says of itself: its format, the translator it was made of, and the sha256 of every other file."""

    export: Program
    translator: model_file.Description
    files: dict[str, str]


def write(folder: Path, export: Program, translator: Translator, make: Callable[[Path], None]) -> None:
    """Writes an export, whole or not at all; `make` puts the other program's files into the folder it is given.

    A former export is replaced. Raises ValueError for a folder that holds anything else, OSError when the disk takes
    no more.
    """
    check_replaceable(folder)
    with atomic_folder(folder) as work:
        make(work)
        for name, tokenizer in zip(TOKENIZERS, translator.tokenizers, strict=True):
            (work / name).write_bytes(tokenizer.model)
        files = {path.name: sha256(path) for path in sorted(work.iterdir())}
        manifest = {"export": export, "translator": translator.description(), "files": files}
        (work / EXPORT_MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")


def _read(folder: Path) -> tuple[Manifest, tuple[Tokenizer, Tokenizer]]:
    plain = read_json(folder / EXPORT_MANIFEST, MAX_MANIFEST_BYTES, follow_links=True)
    manifest = from_dict(Manifest, plain | {"translator": model_file.with_defaults(plain.get("translator"))}, "")
    if manifest.translator.format != model_file.FORMAT:
        raise ValueError(f"its format is {manifest.translator.format!r}, not {model_file.FORMAT!r}")
    # What a file manager left there, hidden, does no harm; any other file an engine might read.
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if strange := [path.name for path in paths if not path.is_file()]:  # reading a pipe would wait for ever
        raise ValueError(f"{strange[0]} is no file")
    names = {path.name for path in paths} - {EXPORT_MANIFEST}
    for name in sorted(names ^ manifest.files.keys()):
        raise ValueError(f"{name} is {'not of it' if name in names else 'missing'}")
    for name, expected in manifest.files.items():
        if sha256(folder / name) != expected:
            raise ValueError(f"{name} does not match its digest: it was altered or damaged")
    kind = manifest.translator.tokenizer_kind
    models = [read_file(folder / name, MAX_TOKENIZER_BYTES, follow_links=True) for name in TOKENIZERS]
    source, target = (Tokenizer(model, kind) for model in models)
    config = manifest.translator.model
    if (len(source), len(target)) != (config.source_vocab_size, config.target_vocab_size):
        raise ValueError("its tokenizers and its model have vocabularies of different sizes")
    return manifest, (source, target)


def read(folder: Path) -> tuple[Manifest, tuple[Tokenizer, Tokenizer]]:
    """Reads the manifest and the tokenizers, and compares every file with its digest.

    Raises ValueError, naming the folder and what is wrong with it.
    """
    try:
        return _read(folder)
    except (OSError, ValueError, RecursionError) as error:
        reason = terminal_safe(one_line(error, 500))  # as a stranger's manifest may say what a terminal obeys
        raise ValueError(f"{folder} is not a usable export of this program: {reason}") from error
