"""The folder of an export: the other program's files, our tokenizers, and a manifest with a digest of each file.

It needs no other files, and nothing in it is unpickled. But the engine reads its own file with its own code, which is
not made for untrusted files: the digest only shows damage.
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

# SentencePiece's own format, which programs in other languages can read.
TOKENIZERS = ("source.spm", "target.spm")
MAX_TOKENIZER_BYTES = 64 << 20  # a vocabulary of 32,000 takes about one MiB
Program = Literal["ctranslate2", "huggingface", "onnx"]


@dataclass(frozen=True)
class Manifest:
    """The manifest of an export: its format, the description of its translator, and the sha256 of every other file."""

    export: Program
    translator: model_file.Description
    files: dict[str, str]


def write(folder: Path, export: Program, translator: Translator, make: Callable[[Path], None]) -> None:
    """Writes an export, whole or not at all; `make` writes the other program's files into a given folder.

    An earlier export is replaced. Raises ValueError for a folder with other files, and OSError if the disk is full.
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
    # Hidden files of a file manager do no harm; other foreign files might be read by an engine.
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if strange := [path.name for path in paths if not path.is_file()]:  # reading a pipe would wait forever
        raise ValueError(f"{strange[0]} is no file")
    names = {path.name for path in paths} - {EXPORT_MANIFEST}
    for name in sorted(names ^ manifest.files.keys()):
        raise ValueError(f"{name} is {'not in its manifest' if name in names else 'missing'}")
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

    Raises ValueError that names the folder and its fault.
    """
    try:
        return _read(folder)
    except (OSError, ValueError, RecursionError) as error:
        reason = terminal_safe(one_line(error, 500))  # an untrusted manifest may have control characters
        raise ValueError(f"{folder} is not a usable export of this program: {reason}") from error
