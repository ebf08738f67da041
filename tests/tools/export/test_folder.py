"""An export's folder: whole or missing; it replaces no other files, and damaged or foreign files are refused."""

import json
import os
from pathlib import Path

import pytest

from tests.links import needs_pipes
from tests.processes import posix_only
from tests.tools.export.models import TEXTS
from transformer import Translator
from transformer.files import EXPORT_MANIFEST, sha256
from transformer.tools.export.folder import MAX_TOKENIZER_BYTES, read, write


def make(work: Path) -> None:
    (work / "model.bin").write_bytes(b"weights of another program" * 100)


def test_tokenizers_and_settings_come_back_alone(taught: Translator, tmp_path: Path) -> None:
    write(tmp_path / "deep" / "export", "onnx", taught, make)
    manifest, (source, target) = read(tmp_path / "deep" / "export")
    assert manifest.translator.model == taught.model.config
    assert (manifest.export, manifest.translator.source_language) == ("onnx", "de")
    assert source.encode_all(TEXTS) == target.encode_all(TEXTS) == taught.source_tokenizer.encode_all(TEXTS)
    names = sorted(path.name for path in (tmp_path / "deep" / "export").iterdir())
    assert names == [EXPORT_MANIFEST, "model.bin", "source.spm", "target.spm"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["export"]


def test_only_a_former_export_is_replaced(taught: Translator, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    for content in (b"one", b"two"):
        write(folder, "onnx", taught, lambda work, content=content: (work / "model.bin").write_bytes(content))
        assert (folder / "model.bin").read_bytes() == content
    (folder / "letter.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"has letter\.txt, which is not an export"):
        write(folder, "onnx", taught, make)
    assert (folder / "letter.txt").read_text(encoding="utf-8") == "mine"
    assert (folder / "model.bin").read_bytes() == b"two"
    with pytest.raises(ValueError, match="is a file"):
        write(folder / "letter.txt", "onnx", taught, make)
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_an_export_that_fails_leaves_the_former_one_and_nothing_else(taught: Translator, tmp_path: Path) -> None:
    def fail(work: Path) -> None:
        make(work)
        raise OSError(28, "No space left on device")

    write(tmp_path / "export", "onnx", taught, make)
    with pytest.raises(OSError, match=r"export cannot be written: No space left on device"):
        write(tmp_path / "export", "onnx", taught, fail)
    read(tmp_path / "export")
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError, match="is not a usable export") as caught:
        read(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_damaged_missing_and_foreign_files_are_refused_in_one_line(taught: Translator, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    write(folder, "onnx", taught, make)
    for path in folder.iterdir():
        whole = path.read_bytes()
        for place in range(0, len(whole), 1 + len(whole) // 7):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert path.name == EXPORT_MANIFEST or f"{path.name} does not match its digest" in refusal(folder)
        path.write_bytes(whole[: len(whole) // 2])
        refusal(folder)
        path.unlink()
        refusal(folder)
        path.write_bytes(whole)
    (folder / ".DS_Store").touch()  # as macOS writes it
    read(folder)
    (folder / "vmap.txt").write_text("a file that the engine would read", encoding="utf-8")
    assert "vmap.txt is not in its manifest" in refusal(folder)


def test_a_tokenizer_larger_than_any_is_not_read_into_memory(taught: Translator, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    write(folder, "onnx", taught, make)
    os.truncate(folder / "source.spm", MAX_TOKENIZER_BYTES + 1)
    manifest = json.loads((folder / EXPORT_MANIFEST).read_text(encoding="utf-8"))
    manifest["files"]["source.spm"] = sha256(folder / "source.spm")
    (folder / EXPORT_MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert "source.spm cannot be read: it is no file of at most" in refusal(folder)


@posix_only
@needs_pipes
@pytest.mark.parametrize("name", [EXPORT_MANIFEST, "model.bin", "source.spm"])
def test_a_pipe_in_an_export_is_refused_and_not_waited_for(taught: Translator, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "export"
    write(folder, "onnx", taught, make)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert f"{name} " in refusal(folder)
    if name == EXPORT_MANIFEST:
        with pytest.raises(ValueError, match="which is not an export"):
            write(folder, "onnx", taught, make)


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../letter.txt": "0" * 64}},
        {"files": {}},
        {"export": "pickle"},
        {"translator": None},
        {"_target_": "os.system"},
    ],
    ids=str,
)
def test_a_manifest_that_asks_for_more_is_refused(
    taught: Translator, tmp_path: Path, change: dict[str, object]
) -> None:
    folder = tmp_path / "export"
    write(folder, "onnx", taught, make)
    manifest = json.loads((folder / EXPORT_MANIFEST).read_text(encoding="utf-8"))
    (folder / EXPORT_MANIFEST).write_text(json.dumps(manifest | change), encoding="utf-8")
    refusal(folder)
    (folder / EXPORT_MANIFEST).write_text("[" * 100_000, encoding="utf-8")
    refusal(folder)


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
def test_tokenizers_of_another_model_or_with_endless_pieces_are_refused(
    taught: Translator, tmp_path: Path, name: str
) -> None:
    folder, model = tmp_path / "export", taught.source_tokenizer.model
    write(folder, "onnx", taught, make)
    manifest = json.loads((folder / EXPORT_MANIFEST).read_text(encoding="utf-8"))
    piece = b"\x0a" + bytes([0x80 | 10_000 & 127, 10_000 >> 7]) + b"x" * 10_000
    for content, reason in (
        (taught.source_tokenizer.with_tags(["fr"]).model, "vocabularies of different sizes"),
        (model + piece, "the tokenizer's bytes are not a SentencePiece model"),
    ):
        (folder / name).write_bytes(content)
        manifest["files"][name] = sha256(folder / name)
        (folder / EXPORT_MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        assert reason in refusal(folder)
    manifest["translator"]["format"] = "another"
    (folder / EXPORT_MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert "its format is 'another', not " in refusal(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"directions": ["de-en", "\x1b[2J"]}, r"translator.directions: \x1b[2J must be two languages"),
        ({"tokenizer_kind": "\x1b[2J"}, r"tokenizer_kind=\x1b[2J is not allowed"),
    ],
)
def test_text_of_a_manifest_is_escaped_and_its_folder_named(
    taught: Translator, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    folder = tmp_path / "export"
    write(folder, "onnx", taught, make)
    manifest = json.loads((folder / EXPORT_MANIFEST).read_text(encoding="utf-8"))
    manifest["translator"] |= change
    (folder / EXPORT_MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert reason in refusal(folder)
