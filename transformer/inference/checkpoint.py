"""The files that hold a trained translator, written and read so that a stranger's file can do no harm.

Nothing is unpickled but by `torch.load(weights_only=True)`; the settings inside are plain data, read strictly; sizes
are checked against the file before anything is built, so that memory is bounded by the file's size and constants here;
a digest in the file covers settings, tokenizers and weights, checksums of a .ckpt all the rest.
"""

import hashlib
import io
import json
import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from transformer.config import flatten, from_dict
from transformer.data.tokenizer import Kind, Tokenizer
from transformer.files import atomic_write
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer

T = TypeVar("T")
FORMAT = "encoder-decoder translator 1"
# What a file may hold besides tensors: bytes (a description has some thousand of them), steps of a pickle, and how many
# tensors. A model of 12 layers needs a tenth of it. So no refusal takes more than 64 MiB and 16 × the file's size.
MAX_PLAIN_BYTES, MAX_DESCRIPTION, MAX_PICKLE_STEPS, MAX_TENSORS = 4 << 20, 100_000, 400_000, 10_000
# Tables of positions are not in a file but computed from two numbers: they may take this much and 4 × the weights.
MAX_TABLE_BYTES = 256 << 20
# The records of a .ckpt that are read, and all that the pickle among them may name: torch's own list of names has
# bytearray on it, which takes any size.
RECORD = re.compile(r"[^/]+/(data\.pkl|data/\d+|version|byteorder)")
KINDS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
NAMED = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", *(f"torch {kind}Storage" for kind in KINDS)}


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

    def towards(self, language: str | None) -> "Saved":
        """The same for the other of its two languages as the target, if it learned both directions.

        Raises ValueError if it did not.
        """
        source, target = self.languages
        if language in (None, target):
            return self
        if language != source or not Tokenizer(self.tokenizers[0].model, self.tokenizers[0].kind, language).prefix:
            both = " (data.both_directions=true would have trained both directions)" if language == source else ""
            raise ValueError(f"the checkpoint translates {source} → {target}, not to {language}{both}")
        return replace(self, languages=(target, source))

    def continued(self, config: ModelConfig) -> Transformer:
        """The model built as `config` says, which may differ from its own in dropout alone: to train it further.

        Raises ValueError that names what differs.
        """
        before, now = (dict(flatten(asdict(one), "model.")) for one in (self.config, config))
        changed = [key for key in now if now[key] != before[key] and not key.endswith(".dropout")]
        if different := [f"{key}={now[key]} (there {before[key]})" for key in changed]:
            remedy = "set these as its config.yaml has them"
            raise ValueError(f"init_from= holds another model than the one asked for: {', '.join(different)}: {remedy}")
        return replace(self, config=config).build()

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
    """All that is not description: each weight once, however many places share it, and the tokenizers' bytes."""
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
    atomic_write(path, safetensors.torch.save(content, about))


def load(path: Path) -> Saved:
    """Reads and checks a .safetensors, a .ckpt or a run's folder.

    Raises FileNotFoundError, or ValueError naming the file, what is wrong with it and the newest file of the same run
    that is whole.
    """
    if path.is_dir():
        choices = [
            path / "translator.safetensors",
            *(path / "checkpoints" / f"{name}.ckpt" for name in ("best", "last")),
        ]
        path = next((choice for choice in choices if choice.exists()), path)
    return _read(path, _load)


def load_training(path: Path) -> dict[str, Any]:
    """Reads and checks all of a .ckpt, to go on with its training. Raises as `load` does."""

    def everything(path: Path) -> dict[str, Any]:
        checkpoint = _read_checkpoint(path)
        _check(path, *_translator_in(checkpoint))
        return checkpoint

    return _read(path, everything)


def _read(path: Path, read: Callable[[Path], T]) -> T:
    """`read(path)`, with one line for whatever goes wrong."""
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}")
    try:
        return read(path)
    except Exception as error:  # a stranger's file may be wrong in any way: the answer is always one line
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        # What stands in the file could steer a terminal.
        reason = "".join(letter if letter.isprintable() else "?" for letter in reason)
        offer = _newest_whole(path, read)
        raise ValueError(
            f"{path} is not a usable checkpoint of this program: {reason}"
            + (f"; {offer} is whole, use it" if offer else "")
        ) from error


def _newest_whole(damaged: Path, read: Callable[[Path], Any]) -> Path | None:
    """The newest other file of the same run that can be read."""
    in_run = damaged.parent.name == "checkpoints"
    if not in_run and damaged.name != "translator.safetensors":
        return None
    run = damaged.parent.parent if in_run else damaged.parent
    others = {run / "translator.safetensors", *run.glob("checkpoints/*.ckpt")} - {damaged}
    for other in sorted(filter(Path.is_file, others), key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            read(other)
        except Exception:  # damaged too
            continue
        return other
    return None


def _load(path: Path) -> Saved:
    found = _translator_in(_read_checkpoint(path)) if path.suffix == ".ckpt" else _read_safetensors(path)
    description, content = _check(path, *found)
    sides = [content.pop(f"tokenizer.{side}", torch.empty(0)) for side in ("source", "target")]
    if any(side.dtype != torch.uint8 for side in sides):
        raise ValueError("it holds no tokenizers")
    source, target = (Tokenizer(side.numpy().tobytes(), description.tokenizer_kind) for side in sides)
    if (len(source), len(target)) != (description.model.source_vocab_size, description.model.target_vocab_size):
        raise ValueError("its tokenizers and its model have vocabularies of different sizes")
    _check_shapes(description.model, content)
    languages = (description.source_language, description.target_language)
    return Saved(description.model, (source, target), languages, content)


def _check(
    path: Path, plain: dict[str, Any], content: dict[str, Tensor], expected: str
) -> tuple[Description, dict[str, Tensor]]:
    """Compares with the digest in the file what was read from it, after bounding what that takes."""
    _check_plain(plain)
    for name, tensor in content.items():
        # A tensor of strides can be larger than all memory in a file of a few bytes.
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or not tensor.is_contiguous():
            raise ValueError(f"its tensor {name} is not a plain one")
    # Many tensors can be one and the same in the file, but not in memory.
    if len(content) > MAX_TENSORS or sum(tensor.nbytes for tensor in content.values()) > path.stat().st_size:
        raise ValueError("it declares more tensors than it holds")
    if digest(plain, content) != expected:
        raise ValueError("its content does not match the digest in it: it was altered or damaged")
    description = from_dict(Description, plain, "translator")
    if description.format != FORMAT:
        raise ValueError(f"its format is {description.format!r}, not {FORMAT!r}")
    return description, content


def _check_plain(plain: Any) -> None:
    """Refuses what is not a small tree of plain values: parts shared in a pickle, written out, could have no end."""
    rest, count = [plain], 0
    while rest:
        value, count = rest.pop(), count + 1
        if type(value) is dict and all(type(key) is str for key in value):
            rest += value.values()
        elif type(value) not in (str, int, float, bool, type(None)):
            raise ValueError("its description is not plain data")
        if count > 1000:
            raise ValueError("its description is too large")


def _read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    with path.open("rb") as raw:
        if (header := int.from_bytes(raw.read(8), "little")) > MAX_PLAIN_BYTES:
            raise ValueError(f"truncated or no safetensors file (a header of {header:,} bytes)")
    try:
        with safetensors.safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
            about = file.metadata() or {}
            content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if len(said := about.get("translator", "null")) > MAX_DESCRIPTION:
            raise ValueError("its description is too large")
        plain = json.loads(said)
    except (safetensors.SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"truncated or no safetensors file ({error})") from error
    if not isinstance(plain, dict):
        raise ValueError("it says nothing of a translator")
    return plain, content, about.get("sha256", "")


def _read_checkpoint(path: Path) -> dict[str, Any]:
    try:
        return torch.load(_checked_archive(path), map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, RuntimeError, EOFError, NotImplementedError) as error:
        raise ValueError(f"truncated or no checkpoint ({error})") from error
    except pickle.UnpicklingError as error:
        raise ValueError("it would run code when loaded, or is no checkpoint; nothing of it was run") from error


def _checked_archive(path: Path) -> io.BytesIO:
    """The records of a .ckpt in a new archive: from the same bytes, torch's own reader could take others than these."""
    checked = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(checked, "w") as copy:
        found = [(record, RECORD.fullmatch(record.filename)) for record in archive.infolist()]
        records = {match[1]: record for record, match in found if match}
        # torch never compresses; a compressed record could unpack to any size.
        if any(record.compress_type != zipfile.ZIP_STORED for record in records.values()):
            raise ValueError("it holds compressed data")
        if sum(record.file_size for record in records.values()) > path.stat().st_size:
            raise ValueError("it declares more data than it holds")
        if not {"data.pkl", "version"} <= records.keys():
            raise ValueError("truncated or no checkpoint (what torch needs is not in it)")
        for name, record in records.items():
            # Reading compares the record with its checksum.
            content = archive.read(record)
            if name == "data.pkl":
                _check_pickle(content)
            copy.writestr(f"archive/{name}", content)
    checked.seek(0)
    return checked


def _check_pickle(content: bytes) -> None:
    """Refuses a pickle that is large, or names anything that a checkpoint of ours does not."""
    if len(content) > MAX_PLAIN_BYTES:
        raise ValueError(f"it holds {len(content):,} bytes besides its tensors")
    for step, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        if step > MAX_PICKLE_STEPS:
            raise ValueError("it holds too much besides its tensors")
        # Only by GLOBAL does torch take names.
        if opcode.name == "GLOBAL" and argument not in NAMED:
            raise pickle.UnpicklingError(argument)


def _translator_in(checkpoint: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    try:
        plain = checkpoint["hyper_parameters"]["translator"]
        content = {name: checkpoint["state_dict"][f"model.{name}"] for name in checkpoint["weights"]}
        return plain, content | checkpoint["tokenizers"], checkpoint["sha256"]
    except (KeyError, TypeError) as error:
        raise ValueError("it says nothing of a translator") from error


def _check_shapes(config: ModelConfig, content: dict[str, Tensor]) -> None:
    """Compares the configuration with the tensors before memory is taken for it."""
    # A layer has ten tensors at least: four of attention, two of the feed-forward network, two norms of two.
    if 10 * (config.encoder.layers + config.decoder.layers) > len(content):
        raise ValueError("it declares more layers than it holds")
    with torch.device("meta"):
        model = Transformer(config)
    expected = {name: weight.shape for name, weight in model.named_parameters()}
    if expected.keys() != content.keys():
        raise ValueError("its tensors are not those of the model it describes")
    for name, shape in expected.items():
        if content[name].shape != shape or not content[name].is_floating_point():
            raise ValueError(f"its tensor {name} is {tuple(content[name].shape)}, the model needs {tuple(shape)}")
        if not content[name].isfinite().all():
            raise ValueError(f"its tensor {name} holds values that are no numbers")
    tables = sum(table.nbytes for table in model.buffers())
    if tables > MAX_TABLE_BYTES + 4 * sum(weight.nbytes for weight in content.values()):
        raise ValueError(f"its positions would take {tables:,} bytes: its model.max_length is too large")
