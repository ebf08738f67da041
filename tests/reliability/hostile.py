"""Hostile files, for `test_strangers`: each is made by a function that takes its path.

Code in them, if it were run, would make a file `ran` in the same folder.
"""

import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from tests.reliability import trials
from tests.reliability.children import small_translator, training_content
from transformer import ModelConfig, Transformer, Translator
from transformer.inference import model_file as checkpoint
from transformer.model.config import AttentionConfig, DecoderConfig, EncoderConfig

Content = dict[str, Any]


@cache
def translator() -> Translator:
    return small_translator()


def parts() -> tuple[Content, dict[str, Tensor]]:
    """The description and the tensors of a good file."""
    model, tokenizers, languages = translator().model, translator().tokenizers, translator().languages
    return checkpoint.describe(model, tokenizers, languages), checkpoint.tensors(model, tokenizers)


def safe_file(path: Path, plain: Any, content: dict[str, Tensor], **about: str) -> None:
    """A .safetensors with the right digest."""
    about = {"translator": json.dumps(plain), "sha256": checkpoint.digest(plain, content)} | about
    safetensors.torch.save_file(content, path, about)


def training_file(path: Path, plain: Any, content: dict[str, Tensor], **changes: Any) -> None:
    """A .ckpt with the right digest, if that is possible."""
    try:
        digest = checkpoint.digest(plain, content)
    except (TypeError, RuntimeError, RecursionError):
        digest = "0" * 64
    tokenizers = {name: tensor for name, tensor in content.items() if name.startswith("tokenizer.")}
    weights = {name: tensor for name, tensor in content.items() if name not in tokenizers}
    saved = {
        "state_dict": {f"model.{name}": weight for name, weight in weights.items()},
        "hyper_parameters": {"translator": plain},
        "tokenizers": tokenizers,
        "weights": list(weights),
        "sha256": digest,
    }
    torch.save(saved | changes, path)


def records(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(path: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression, compresslevel=1) as file:
        for name, record in content.items():
            file.writestr(name, record)


class Call:
    """An object that is a call when it is pickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def with_code(folder: Path) -> Call:
    return Call(os.system, f"touch {folder}/ran")


def changed(plain: Content, path: str, value: Any) -> Content:
    """A copy in which the setting with this dotted path is changed."""
    key, _, rest = path.partition(".")
    return plain | {key: changed(plain[key], rest, value) if rest else value}


# Hostile files, each made by a function that takes its path.
HOSTILE: dict[str, Callable[[Path], None]] = {}


def hostile(name: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def add(make: Callable[[Path], None]) -> Callable[[Path], None]:
        HOSTILE[name] = make
        return make

    return add


@hostile("code.ckpt")
def _(path: Path) -> None:
    training_file(path, *parts(), hyper_parameters=with_code(path.parent))


@hostile("code_beside.ckpt")
def _(path: Path) -> None:
    training_file(path, *parts(), optimizer={"x": [with_code(path.parent)]})


@hostile("code_bare.ckpt")
def _(path: Path) -> None:
    path.write_bytes(pickle.dumps(with_code(path.parent)))


@hostile("code_old_format.ckpt")
def _(path: Path) -> None:
    torch.save({"x": with_code(path.parent)}, path, _use_new_zipfile_serialization=False)


@hostile("code_tar.ckpt")
def _(path: Path) -> None:
    with tarfile.open(path, "w") as file:
        for name in ("storages", "tensors", "pickle"):
            content = pickle.dumps(with_code(path.parent))
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))


@hostile("code_in_other_case.ckpt")
def _(path: Path) -> None:
    training_file(path, *parts())
    content = records(path)
    archive(path, {"x/DATA.PKL": pickle.dumps(with_code(path.parent), 2)} | content)


@hostile("torchscript.ckpt")
def _(path: Path) -> None:
    training_file(path, *parts())
    archive(path, records(path) | {"last/constants.pkl": b"", "last/code/x.py": b"raise SystemExit"})


@hostile("code.safetensors")
def _(path: Path) -> None:
    path.write_bytes(pickle.dumps(with_code(path.parent)))


@hostile("huge_bytearray.ckpt")
def _(path: Path) -> None:
    # torch allows this call, which makes 1 GiB of zeros from a file of 1 kB.
    torch.save({"x": Call(bytearray, 1 << 30)}, path)


@hostile("compressed.ckpt")
def _(path: Path) -> None:
    training_file(path, *parts(), x=torch.zeros(100 << 18))
    archive(path, records(path), zipfile.ZIP_DEFLATED)


@hostile("two_directories.ckpt")
def _(path: Path) -> None:
    # Python reads the directory before the last record of the archive, torch the one at the place in that record: the
    # first says that nothing is compressed, the second has 100 MB.
    HOSTILE["compressed.ckpt"](path)
    content = path.read_bytes()
    end = content.rindex(b"PK\5\6")
    size, start = struct.unpack("<II", content[end + 12 : end + 20])
    shown, place = bytearray(content[start : start + size]), 0
    while place < size:
        shown[place + 10 : place + 12] = bytes(2)
        shown[place + 20 : place + 28] = bytes(8)
        place += 46 + sum(struct.unpack("<HHH", shown[place + 28 : place + 34]))
    path.write_bytes(content[:end] + bytes(shown) + content[end:])


@hostile("overlapping_records.ckpt")
def _(path: Path) -> None:
    # Eleven records in the directory, all with the same 4 MB.
    training_file(path, *parts(), x=torch.zeros(1 << 20))
    name = max(records(path).items(), key=lambda record: len(record[1]))[0].encode()
    content = path.read_bytes()
    end = content.rindex(b"PK\5\6")
    size, start = struct.unpack("<II", content[end + 12 : end + 20])
    directory = content[start : start + size]
    place = directory.index(name)
    entry = directory[place - 46 : directory.find(b"PK\1\2", place)]
    directory += b"".join(entry.replace(name, name[:-2] + b"9%d" % digit) for digit in range(10))
    count = directory.count(b"PK\1\2")
    ending = content[end : end + 8] + struct.pack("<HHIIH", count, count, len(directory), start, 0)
    path.write_bytes(content[:start] + directory + ending)


@hostile("many_records.ckpt")
def _(path: Path) -> None:
    archive(path, {f"archive/data/{number}": b"" for number in range(20_000)})


@hostile("huge_storage.ckpt")
def _(path: Path) -> None:
    training_file(path, *parts(), x=torch.zeros(70_000))
    archive(
        path,
        {
            name: content.replace(struct.pack("<i", 70_000), struct.pack("<i", 2**30))
            for name, content in records(path).items()
        },
    )


@hostile("huge_pickle.ckpt")
def _(path: Path) -> None:
    archive(path, {"archive/data.pkl": b"\x80\x02" + b"]" * 5_000_000 + b".", "archive/version": b"3\n"})


@hostile("dense_pickle.ckpt")
def _(path: Path) -> None:
    archive(path, {"archive/data.pkl": b"\x80\x02" + b"]" * 4_000_000 + b".", "archive/version": b"3\n"})


@hostile("deep_pickle.ckpt")
def _(path: Path) -> None:
    archive(path, {"archive/data.pkl": b"\x80\x02)" + b"\x85" * 300_000 + b".", "archive/version": b"3\n"})


@hostile("strides.ckpt")
def _(path: Path) -> None:
    plain, content = parts()
    training_file(path, plain, content | {"output.weight": torch.zeros(1).expand(1 << 30, 64)})


def of_zeros(config: ModelConfig) -> tuple[Content, dict[str, Tensor]]:
    """The description and the tensors of a model whose weights are zero; weights of one shape are one tensor."""
    plain, content = parts()
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in Transformer(config).named_parameters()}
    zeros = {shape: torch.zeros(shape) for shape in shapes.values()}
    tokenizers = {name: content[name] for name in ("tokenizer.source", "tokenizer.target")}
    return plain | {"model": asdict(config)}, {name: zeros[shape] for name, shape in shapes.items()} | tokenizers


@hostile("one_tensor_often.ckpt")
def _(path: Path) -> None:
    # Each shape is in the file once, but memory would need 100 layers.
    config = translator().model.config
    training_file(path, *of_zeros(replace(config, dim=256, encoder=replace(config.encoder, layers=100))))


@hostile("laughs.ckpt")
def _(path: Path) -> None:
    # Two references to two references …: 60 small dicts, which would be larger than any disk if written out.
    laughs: Content = {"x": 1}
    for _ in range(60):
        laughs = {"x": laughs, "y": laughs}
    plain, _ = parts()
    whole = training_content(translator()) | {"hyper_parameters": {"translator": plain | {"model": laughs}}}
    torch.save(whole, path)


@hostile("keys.ckpt")
def _(path: Path) -> None:
    whole = training_content(translator())
    torch.save(whole | {"hyper_parameters": {"translator": {(1, 2): 3}}}, path)


@hostile("another_class.ckpt")
def _(path: Path) -> None:
    plain, content = parts()
    training_file(path, plain, content | {"output.weight": torch.zeros(3, 3).to_sparse()})


for number, other in enumerate(([1, 2], {"hyper_parameters": 3}, {"state_dict": {}, "weights": [[]]}, "text", None)):
    HOSTILE[f"another_{number}.ckpt"] = lambda path, other=other: torch.save(other, path)  # type: ignore[misc]

HOSTILE["missing_sha.ckpt"] = lambda path: training_file(path, *parts(), sha256=None)
HOSTILE["other_tokenizers.ckpt"] = lambda path: training_file(path, *parts(), tokenizers={"tokenizer.source": "x"})
HOSTILE["ordered.ckpt"] = lambda path: training_file(path, *parts(), weights=OrderedDict())


@hostile("list_in_itself.ckpt")
def _(path: Path) -> None:
    endless: list[Any] = [None] * 50_000
    endless.append(endless)
    training_file(path, *parts(), hyper_parameters={"translator": endless})


@hostile("one_string_many_times.ckpt")
def _(path: Path) -> None:
    plain, _ = parts()
    training_file(path, *parts(), hyper_parameters={"translator": plain | {"extra": ["x" * 500_000] * 900}})


@hostile("wide_table.safetensors")
def _(path: Path) -> None:
    plain, content = parts()
    safe_file(path, changed(changed(plain, "model.dim", 512), "model.max_length", 65536), content)


@hostile("table_a_layer.safetensors")
def _(path: Path) -> None:
    attention = AttentionConfig(1, 256, 8)
    sides = {"encoder": EncoderConfig(4, attention), "decoder": DecoderConfig(4, attention, AttentionConfig(2))}
    config = replace(translator().model.config, positions="rotary", dim=16, max_length=32768, **sides)  # type: ignore[arg-type]
    plain, content = of_zeros(config)
    safe_file(path, plain, {name: tensor.clone() for name, tensor in content.items()} | {"extra": torch.zeros(1)})


@hostile("huge_header.safetensors")
def _(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 1 << 40) + b"{}")


@hostile("large_header.safetensors")
def _(path: Path) -> None:
    header = b"{}" + b" " * 5_000_000
    path.write_bytes(struct.pack("<Q", len(header)) + header)


@hostile("deep_header.safetensors")
def _(path: Path) -> None:
    header = b'{"a":' * 100_000
    path.write_bytes(struct.pack("<Q", len(header)) + header)


@hostile("huge_tensor.safetensors")
def _(path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}})
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())


@hostile("many_tensors.safetensors")
def _(path: Path) -> None:
    plain, content = parts()
    safe_file(path, plain, content | {f"x{number}": torch.zeros(0) for number in range(11_000)})


@hostile("terminal.safetensors")
def _(path: Path) -> None:
    plain, content = parts()
    safe_file(path, plain | {"format": "\x1b]0;owned\x07" + "x" * 10_000}, content)


for name, description in {
    "deep": '{"a":' * 20_000,
    "lists": f"[{'[],' * 1_000_000}[]]",
    "list": "[]",
    "number": "1" * 5000,
    "wide": json.dumps({str(number): number for number in range(5000)}),
    "twice": '{"format": 1, "format": 2}',
}.items():
    HOSTILE[f"description_{name}.safetensors"] = lambda path, description=description: safe_file(  # type: ignore[misc]
        path, *parts(), translator=description
    )


ChangedMap = Callable[[bytes, bytes], tuple[bytes, bytes]]


def with_map(model: bytes, change: ChangedMap) -> bytes:
    """A tokenizer with a different map of characters of the same size: `change` takes its trie and texts."""
    # The field of the normalizer: its name, then the map with its size of three bytes and the size of the trie.
    start = model.index(b"\x12", model.index(b"\n\x03nfc")) + 4
    size = int.from_bytes(model[start : start + 4], "little")
    length = sum((byte & 127) << 7 * shift for shift, byte in enumerate(model[start - 3 : start]))
    trie, texts = change(model[start + 4 : start + 4 + size], model[start + 4 + size : start + length])
    changed = model[: start + 4] + trie + texts + model[start + length :]
    assert len(changed) == len(model)
    return changed


def character_map(change: ChangedMap) -> Callable[[Path], None]:
    """A file with the tokenizers of `with_map`."""

    def make(path: Path) -> None:
        plain, content = parts()
        changed = with_map(translator().source_tokenizer.model, change)
        blob = torch.frombuffer(bytearray(changed), dtype=torch.uint8)
        safe_file(path, plain, content | {"tokenizer.source": blob, "tokenizer.target": blob.clone()})

    return make


# The last text has no end; a step of the trie leads to memory outside of the map.
CHANGED_MAPS: dict[str, ChangedMap] = {
    "map_without_end": lambda trie, texts: (trie, texts[:-1] + b"x"),
    "map_leads_out": lambda trie, texts: (b"\xff\xff\xff\x7f" * (len(trie) // 4), texts),
}
for name, change in CHANGED_MAPS.items():
    HOSTILE[f"{name}.safetensors"] = character_map(change)


# Wrong settings, in files with the right digest. Some would take all memory.
WRONG = {
    "_target_": "os.system",
    "_instantiator": "lightning.pytorch.cli.instantiate_module",
    "_class_path": "os.system",
    "model._target_": "os.system",
    "model.encoder._target_": "os.system",
    "format": "encoder-decoder translator 2",
    "tokenizer_kind": "word2",
    "source_language": 3,
    "directions": ["de-en", "\x1b[2J-en"],
    "model.dim": 10**9,
    "model.source_vocab_size": 10**9,
    "model.max_length": 10**9,
    "model.encoder.layers": 10**9,
    "model.decoder.layers": 2,
    "model.feed_forward.dim": 10**12,
    "model.encoder.self_attention.heads": 3,
    "model.encoder.self_attention.head_dim": 10**9,
    "model.decoder.self_attention.value_dim": 10**18,
    "model.dropout": float("nan"),
    "model.norm": "post",
    "model.positions": "learned",
    "model.tied_embeddings": "none",
    "model.encoder.self_attention.score": "additive",
}
FORMATS = ((safe_file, "safetensors"), (training_file, "ckpt"))
for number, (setting, value) in enumerate(WRONG.items()):
    # Both check the settings with the same code: the short trials take turns.
    for make, ending in trials(FORMATS[number % 2 :][:1], FORMATS):

        def wrong(path: Path, make: Any = make, setting: str = setting, value: Any = value) -> None:
            plain, content = parts()
            make(path, changed(plain, setting, value), content)

        HOSTILE[f"{setting}={value!s:.9}.{ending}"] = wrong


def wrong_tensors(path: Path, name: str, tensor: Tensor | None) -> None:
    plain, content = parts()
    del content[name]
    safe_file(path, plain, content if tensor is None else content | {name: tensor})


WEIGHT = "encoder.layers.0.self_attention.key.weight"
for name, tensor in {
    WEIGHT: None,
    "tokenizer.target": None,
    "tokenizer.source": torch.zeros(0, dtype=torch.uint8),
}.items():
    HOSTILE[f"without_{name}.safetensors"] = lambda path, name=name, tensor=tensor: wrong_tensors(path, name, tensor)  # type: ignore[misc]
for label, tensor in {
    "shape": torch.zeros(16, 15),
    "swapped": torch.zeros(256),
    "whole_numbers": torch.zeros(16, 16, dtype=torch.int64),
    "complex": torch.zeros(16, 16, dtype=torch.complex64),
    "nan": torch.full((16, 16), torch.nan),
    "infinite": torch.full((16, 16), torch.inf),
}.items():
    HOSTILE[f"{label}.safetensors"] = lambda path, tensor=tensor: wrong_tensors(path, WEIGHT, tensor)  # type: ignore[misc]


@hostile("tables.safetensors")
def _(path: Path) -> None:
    # Two tables of 65,536 positions would take a thousand times the memory of the weights.
    thin = AttentionConfig(1, 1, 1, 0.0, bias=False, score="scaled_dot")
    stacks = {"encoder": EncoderConfig(1, thin), "decoder": DecoderConfig(1, thin, thin)}
    plain, content = of_zeros(replace(translator().model.config, dim=4096, max_length=65_536, **stacks))
    safe_file(path, plain, {name: tensor.clone() for name, tensor in content.items()})


@hostile("bilinear.safetensors")
def _(path: Path) -> None:
    # The identity matrices at the start of a bilinear score would take 256 MB each.
    wide = AttentionConfig(1, 8000, 1, 0.0, bias=False, score="bilinear")
    plain, content = parts()
    for side in ("encoder", "decoder"):
        plain = changed(plain, f"model.{side}.self_attention", asdict(wide))
    safe_file(path, plain, content)


@hostile("no_columns.safetensors")
def _(path: Path) -> None:
    plain, content = parts()
    safe_file(path, plain, content | {"x": torch.zeros(1 << 40, 0)})
