"""The files of a trained translator: their content, writing them, and reading them with every check.

A file holds the description (languages, kind of tokenizer, model configuration) as plain data, the weights, the bytes
of the tokenizers, and a digest over all three; a .ckpt also holds the state of training. `untrusted` says why it is
safe to read a file from an unknown source.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from torch import Tensor

from transformer.config import Registry, from_dict, read_value
from transformer.data.directions import Direction, check_language, direction_name, parse_direction
from transformer.data.tokenizer import Kind, Tokenizer
from transformer.files import EXPORT_MANIFEST, HUGGINGFACE_TOKENIZER, atomic_write
from transformer.inference.alignment_head import AlignmentHead, check_head
from transformer.inference.saved_translator import SavedTranslator
from transformer.inference.settings import Defaults, LengthPenalty, LengthRatio
from transformer.inference.untrusted import (
    check_plain,
    check_shapes,
    check_tensors,
    read_checkpoint,
    read_safetensors,
)
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer
from transformer.printing import one_line, terminal_safe
from transformer.run import Run

T = TypeVar("T")
FORMAT = "encoder-decoder translator 3"
# Models of other programs: for the file that marks such a folder, the function that reads it.
READERS: Registry[Any] = Registry({HUGGINGFACE_TOKENIZER: "transformer.tools.hub.reader:read"})
# The names of the weights in such folders, and in exports to CTranslate2.
WEIGHTS_OF_FOLDERS = ("model.safetensors", "pytorch_model.bin", "model.bin")
# Keys that a description has only if their value is not this one: several directions, other defaults of a search, and
# the alignment that training finds at its end.
OPTIONAL: dict[str, Any] = {"directions": [], **asdict(Defaults()), "alignment": None}


@dataclass(frozen=True)
class Description:
    """The description of a translator in its file: everything besides tensors."""

    format: str
    source_language: str
    target_language: str
    tokenizer_kind: Kind
    model: ModelConfig
    directions: list[str]  # all that were learned, in the form "de-en"; empty if it is only one
    length_penalty: LengthPenalty  # these three are its `Defaults`
    length_ratio: LengthRatio
    keeps_letterless: bool
    alignment: AlignmentHead | None

    def __post_init__(self) -> None:
        """Raises ValueError for an alignment head that the model does not have, and for text that is no language or no
        direction."""
        if self.alignment is not None:
            check_head(self.alignment, self.model)
        for language in self.languages:
            check_language(language)
        for text in self.directions:
            parse_direction(text, "translator.directions")

    @property
    def languages(self) -> Direction:
        return self.source_language, self.target_language

    @property
    def defaults(self) -> Defaults:
        return Defaults(self.length_penalty, self.length_ratio, self.keeps_letterless)

    @property
    def all_directions(self) -> list[Direction]:
        """All directions that were learned."""
        return [parse_direction(text, "directions") for text in self.directions] or [self.languages]


def describe(
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    languages: Direction,
    directions: Sequence[Direction] = (),
    defaults: Defaults = Defaults(),
    alignment: AlignmentHead | None = None,
) -> dict[str, Any]:
    """The description as plain dicts, strings and numbers; `directions` are written only if there are several.

    Raises ValueError for a translator that `load` would refuse.
    """
    several = [direction_name(direction) for direction in directions if len(directions) > 1]
    kind, *other = dict.fromkeys(tokenizer.kind for tokenizer in tokenizers)
    if other:
        raise ValueError(f"the tokenizers are of two kinds, {kind} and {other[0]}: in a file both have the same kind")
    description = Description(
        *(FORMAT, *languages, kind, model.config, several),
        **asdict(defaults),
        alignment=alignment,
    )
    plain = asdict(description)
    read_value(LengthPenalty, defaults.length_penalty, "length_penalty")
    return {key: value for key, value in plain.items() if key not in OPTIONAL or value != OPTIONAL[key]}


def with_defaults(plain: Any) -> Any:
    """A description as plain data, with the fields that `describe` leaves out."""
    return OPTIONAL | plain if isinstance(plain, dict) else plain


def tensors(model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer]) -> dict[str, Tensor]:
    """The tensors of a file: each weight (a shared one only once), and the tokenizers' bytes."""
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.named_parameters()}
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        weights[f"tokenizer.{side}"] = torch.frombuffer(bytearray(tokenizer.model), dtype=torch.uint8)
    return weights


def digest(description: dict[str, Any], content: dict[str, Tensor]) -> str:
    """sha256 over the description and every tensor's name, type, shape and bytes."""
    total = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name, tensor in sorted(content.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def save(path: Path, description: dict[str, Any], content: dict[str, Tensor]) -> None:
    """Writes a .safetensors file, whole or not at all."""
    about = {"translator": json.dumps(description), "sha256": digest(description, content)}
    data = safetensors.torch.save(content, about)
    end = 8 + int.from_bytes(data[:8], "little")
    # The library writes the metadata in any order. Sorted, equal translators give equal files.
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    atomic_write(path, data[:8] + header.encode().ljust(end - 8) + data[end:])


def _newest_whole(damaged: Path, read: Callable[[Path], Any]) -> Path | None:
    """The newest other file of the same run that can be read."""
    run = Run.open(damaged)
    if damaged.parent == run.folder and damaged != run.translator:
        return None
    others = {run.translator, *run.folder.glob("checkpoints/*.ckpt")} - {damaged}
    for other in sorted(filter(Path.is_file, others), key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            read(other)
        except Exception:  # damaged too
            continue
        return other
    return None


def _read(path: Path, read: Callable[[Path], T]) -> T:
    """`read(path)`, with every error as one line."""
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        return read(path)
    except Exception as error:  # an untrusted file may be wrong in any way: the message is always one line
        # Text from the file could contain control characters of a terminal.
        reason = terminal_safe(one_line(error, 300)) or type(error).__name__
        offer = ""
        if whole := _newest_whole(path, read):
            offer = f"; {whole} is whole, use it"
        elif path.name in WEIGHTS_OF_FOLDERS and any(
            (path.parent / name).is_file() for name in (*READERS, EXPORT_MANIFEST)
        ):
            offer = f"; it is one file of a model: give its folder, {path.parent}"
        raise ValueError(f"{path} is not a usable checkpoint of this program: {reason}{offer}") from error


def _translator_in(checkpoint: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    try:
        description = checkpoint["hyper_parameters"]["translator"]
        content = {name: checkpoint["state_dict"][f"model.{name}"] for name in checkpoint["weights"]}
        return description, content | checkpoint["tokenizers"], checkpoint["sha256"]
    except (KeyError, TypeError) as error:
        raise ValueError("it does not describe a translator") from error


def _check(path: Path, description: dict[str, Any], content: dict[str, Tensor], expected: str) -> Description:
    """Checks the size and the digest of what was read; returns the description."""
    check_plain(description)
    check_tensors(path, content)
    if digest(description, content) != expected:
        raise ValueError("its content does not match the digest in it: it was altered or damaged")
    # Checked before its settings are read: another format may have other names.
    if (version := description.get("format")) != FORMAT:
        raise ValueError(f"its format is {version!r}, not {FORMAT!r}: another version of this program wrote it")
    return from_dict(Description, with_defaults(description), "translator")


def _load(path: Path) -> SavedTranslator:
    if path.suffix == ".html":
        raise ValueError("a page has rounded weights for a browser: give the run that it was exported from")
    parts = _translator_in(read_checkpoint(path)) if path.suffix == ".ckpt" else read_safetensors(path)
    description, content = _check(path, *parts), parts[1]
    sides = [content.pop(f"tokenizer.{side}", torch.empty(0)) for side in ("source", "target")]
    if any(side.dtype != torch.uint8 for side in sides):
        raise ValueError("it holds no tokenizers")
    source, target = (Tokenizer(side.numpy().tobytes(), description.tokenizer_kind) for side in sides)
    if (len(source), len(target)) != (description.model.source_vocab_size, description.model.target_vocab_size):
        raise ValueError("its tokenizers and its model have vocabularies of different sizes")
    check_shapes(description.model, content)
    return SavedTranslator(
        description.model,
        (source, target),
        description.languages,
        content,
        description.all_directions,
        description.defaults,
        description.alignment,
    )


def load(path: Path) -> SavedTranslator:
    """Reads and checks a .safetensors, a .ckpt, a run's folder or one of Hugging Face's transformers.

    Raises FileNotFoundError, or ValueError that names the file, its fault, and the newest undamaged file of the same
    run.
    """
    if path.is_dir():
        others = [name for name in READERS if (path / name).is_file()]
        models = Run(path).models
        if others and not models:
            return _read(path / others[0], lambda file: READERS[others[0]](file.parent))
        if (path / EXPORT_MANIFEST).is_file():
            raise ValueError(
                f"{path} is an export: only translate, augment, serve and inference.loading can use it; otherwise give "
                "the run that it was made from"
            )
        path = next(iter(models), path)
    return _read(path, _load)


def load_training(path: Path) -> dict[str, Any]:
    """Reads and checks a whole .ckpt, to continue its training. Raises the errors of `load`."""

    def everything(path: Path) -> dict[str, Any]:
        checkpoint = read_checkpoint(path)
        _check(path, *_translator_in(checkpoint))
        return checkpoint

    return _read(path, everything)
