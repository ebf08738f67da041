"""The files that hold a trained translator, written and read so that a stranger's file can do no harm (C5).

Nothing is unpickled but by `torch.load(weights_only=True)`; the settings inside are plain data, read strictly; sizes
are checked against the file before anything is built; a digest in the file covers settings, tokenisers and weights.
"""

import hashlib
import json
import pickle
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from transformer.data.tokenizer import Kind, Tokenizer
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer
from transformer.settings import from_plain
from transformer.storage.whole import write_whole

FORMAT = "encoder-decoder translator 1"


@dataclass(frozen=True)
class Description:
    """What a file says of the translator in it, besides tensors: plain data."""

    format: str
    source_language: str
    target_language: str
    tokenizer_kind: Kind
    model: ModelConfig


@dataclass
class Saved:
    """A translator as read from a file and checked, not yet built."""

    config: ModelConfig
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str, str]
    weights: dict[str, Tensor]

    def build(self) -> Transformer:
        model = Transformer(self.config)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(self.weights[name])
        return model


def describe(model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> dict[str, Any]:
    """The description as plain dicts, strings and numbers."""
    return asdict(Description(FORMAT, *languages, tokenizers[0].kind, model.config))


def tensors(model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer]) -> dict[str, Tensor]:
    """All that is not description: each weight once, however many places share it, and the tokenisers' bytes."""
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


def save(path: Path, model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
    """Writes a .safetensors file, whole or not at all."""
    description, content = describe(model, tokenizers, languages), tensors(model, tokenizers)
    about = {"translator": json.dumps(description), "sha256": digest(description, content)}
    write_whole(path, safetensors.torch.save(content, about))


def load(path: Path) -> Saved:
    """Reads and checks a .safetensors, a .ckpt or a run's folder.

    Raises FileNotFoundError, or ValueError naming the file and what is wrong with it.
    """
    if path.is_dir():
        choices = [path / "translator.safetensors", path / "checkpoints" / "best.ckpt"]
        path = next((choice for choice in choices if choice.exists()), path)
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        plain, content, expected = _read_checkpoint(path) if path.suffix == ".ckpt" else _read_safetensors(path)
        for name, tensor in content.items():
            # A tensor of strides can be larger than all memory in a file of a few bytes.
            if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or not tensor.is_contiguous():
                raise ValueError(f"its tensor {name} is not a plain one")
        if digest(plain, content) != expected:
            raise ValueError("its content does not match the digest in it: it was altered or damaged")
        description = from_plain(Description, plain, "translator")
        if description.format != FORMAT:
            raise ValueError(f"its format is {description.format!r}, not {FORMAT!r}")
        sides = [content.pop(f"tokenizer.{side}").numpy().tobytes() for side in ("source", "target")]
        source, target = (Tokenizer(side, description.tokenizer_kind) for side in sides)
        if (len(source), len(target)) != (description.model.source_vocabulary, description.model.target_vocabulary):
            raise ValueError("its tokenisers and its model have vocabularies of different sizes")
        _check_shapes(description.model, content)
    except Exception as error:  # a stranger's file may be wrong in any way: the answer is always one line
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not a usable checkpoint of this program: {reason}") from error
    languages = (description.source_language, description.target_language)
    return Saved(description.model, (source, target), languages, content)


def _read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
            about = file.metadata() or {}
            content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        plain = json.loads(about.get("translator", "null"))
    except (safetensors.SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"truncated or no safetensors file ({error})") from error
    if not isinstance(plain, dict):
        raise ValueError("it says nothing of a translator")
    return plain, content, about.get("sha256", "")


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    try:
        with zipfile.ZipFile(path) as archive:
            # torch never compresses; a compressed entry could unpack to any size.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it holds compressed data")
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("it declares more data than it holds")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, RuntimeError, EOFError, NotImplementedError) as error:
        raise ValueError(f"truncated or no checkpoint ({error})") from error
    except pickle.UnpicklingError as error:
        raise ValueError("it would run code when loaded, or is no checkpoint; nothing of it was run") from error
    plain = checkpoint["hyper_parameters"]["translator"]
    names = {key.removeprefix("model."): key for key in checkpoint["state_dict"] if key.startswith("model.")}
    content = {name: checkpoint["state_dict"][names[name]] for name in checkpoint["weights"]}
    return plain, content | checkpoint["tokenizers"], checkpoint["sha256"]


def _check_shapes(config: ModelConfig, content: dict[str, Tensor]) -> None:
    """Compares the configuration with the tensors before memory is taken for it."""
    if config.encoder.layers + config.decoder.layers > len(content):
        raise ValueError("it declares more layers than it holds")
    with torch.device("meta"):
        expected = {name: weight.shape for name, weight in Transformer(config).named_parameters()}
    if expected.keys() != content.keys():
        raise ValueError("its tensors are not those of the model it describes")
    for name, shape in expected.items():
        if content[name].shape != shape or not content[name].is_floating_point():
            raise ValueError(f"its tensor {name} is {tuple(content[name].shape)}, the model needs {tuple(shape)}")
