"""Reads an untrusted file safely: none of its code runs, and the memory that it takes is limited.

Only `torch.load(weights_only=True)` unpickles. Sizes are compared with the size of the file before anything is built: a
file that is refused takes at most 64 MiB and 16 × its size, and the pickle in a .ckpt at most 100 × the pickle's size.
The digests are compared in `model_file`.
"""

import json
import pickle
import zipfile
from pathlib import Path
from pickletools import genops
from typing import Any

import safetensors
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer

# Limits of a file: bytes before its tensors, letters of its description, and number of tensors. A model of 12 layers
# needs a tenth of this.
MAX_PLAIN_BYTES, MAX_DESCRIPTION, MAX_TENSORS = 4 << 20, 100_000, 10_000
# Tables of positions are not in a file but computed from a few numbers: they may take these bytes plus 4 × the weights.
MAX_TABLE_BYTES = 256 << 20


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a .ckpt, as plain data and tensors on the CPU: torch allows nothing else with `weights_only`."""
    try:
        with zipfile.ZipFile(path) as archive:  # torch never compresses: a compressed record could unpack to any size
            if sum(record.file_size for record in archive.infolist()) > path.stat().st_size:
                raise ValueError("it declares more data than it holds")
            if damaged := archive.testzip():
                raise ValueError(f"its {damaged} does not match its checksum: it was damaged")
            pickles = [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]
        if any(argument == "__builtin__ bytearray" for content in pickles for _, argument, _ in genops(content)):
            raise ValueError("it holds a bytearray, which may have any size: no checkpoint has one")  # torch allows it
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, RuntimeError, EOFError, NotImplementedError) as error:
        raise ValueError(f"truncated or no checkpoint ({error})") from error
    except pickle.UnpicklingError as error:
        raise ValueError("it would run code when loaded, or is no checkpoint; nothing of it was run") from error
    if not isinstance(content, dict):
        raise ValueError(f"no checkpoint (it holds a {type(content).__name__}, not a dictionary)")
    return content


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors in a .safetensors file."""
    with path.open("rb") as raw:
        if int.from_bytes(raw.read(8), "little") > MAX_PLAIN_BYTES:
            raise ValueError("truncated or no safetensors file (its first bytes name no header)")
    try:
        with safetensors.safe_open(path, framework="pt") as file:  # type: ignore[no-untyped-call]
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"truncated or no safetensors file ({error})") from error


def read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """The description, the tensors and the digest in one of our .safetensors files."""
    about, content = read_tensors(path)
    if len(text := about.get("translator", "null")) > MAX_DESCRIPTION:
        raise ValueError("its description is too large")
    try:
        description = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"truncated or no safetensors file ({error})") from error
    if not isinstance(description, dict):
        raise ValueError("it does not describe a translator")
    return description, content, about.get("sha256", "")


def check_plain(description: Any) -> None:
    """Refuses everything except a small tree of plain values: shared parts in a pickle could grow without end."""
    rest, values, letters = [description], 1, 0
    while rest:
        value, inside = rest.pop(), []
        if type(value) is dict and all(type(key) is str for key in value):
            inside, letters = list(value.values()), letters + sum(map(len, value))
        elif type(value) is list:
            inside = value
        elif type(value) is str:
            letters += len(value)
        elif type(value) not in (int, float, bool, type(None)):
            raise ValueError("its description is not plain data")
        values += len(inside)
        if values > 1000 or letters > MAX_DESCRIPTION:
            raise ValueError("its description is too large")
        rest += inside


def check_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Raises ValueError unless these are plain tensors that together are no larger than the file `path`."""
    for name, tensor in tensors.items():
        # With strides, a file of a few bytes can hold a tensor larger than memory.
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or not tensor.is_contiguous():
            raise ValueError(f"its tensor {name} is not a plain one")
        if not tensor.numel():  # for example a million rows without columns, which take no bytes in the file
            raise ValueError(f"its tensor {name} is empty")
    # Several tensors may share bytes in the file, but not in memory.
    if len(tensors) > MAX_TENSORS or sum(tensor.nbytes for tensor in tensors.values()) > path.stat().st_size:
        raise ValueError("it declares more tensors than it holds")


class _ShapesOnly(TorchFunctionMode):
    """A context that builds parameters without memory and values, and tables of positions with two rows and columns.
    (On torch.device("meta") a table would import torch's compiler, which takes as long as everything else.)"""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.empty, torch.randn, torch.eye):
            shape = (*args, *args) if function is torch.eye else args
            return torch.empty(*shape, **{**(kwargs or {}), "device": "meta"})
        if function is torch.arange:
            return function(*args, **(kwargs or {}))[:2]
        if getattr(function, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def check_shapes(config: ModelConfig, content: dict[str, Tensor]) -> None:
    """Compares the configuration with the tensors before the model is built."""
    # A layer has at least ten tensors: four of attention, two of the feed-forward network, two for each of two norms.
    if 10 * (config.encoder.layers + config.decoder.layers) > len(content):
        raise ValueError("it declares more layers than it holds")
    # A table for the embeddings of each side, and one for the heads of each layer.
    layers = [(side.layers, side.self_attention.head_dims(config.dim)[0]) for side in (config.encoder, config.decoder)]
    tables = 4 * config.max_length * (2 * config.dim + sum(count * width for count, width in layers))
    if tables > MAX_TABLE_BYTES + 4 * sum(weight.nbytes for weight in content.values()):
        raise ValueError(f"its positions would take {tables:,} bytes: its model.max_length is too large")
    with _ShapesOnly():
        model = Transformer(config)
    expected = {name: weight.shape for name, weight in model.named_parameters()}
    if expected.keys() != content.keys():
        raise ValueError("its tensors are not those of the model it describes")
    for name, shape in expected.items():
        if content[name].shape != shape or not content[name].is_floating_point():
            raise ValueError(f"its tensor {name} is {tuple(content[name].shape)}, the model needs {tuple(shape)}")
        if not content[name].isfinite().all():
            raise ValueError(f"its tensor {name} holds values that are no numbers")
