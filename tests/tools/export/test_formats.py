"""Each format's own settings, and one file of rounded weights."""

import sys
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.cases import others_long
from tests.tools.export.models import TEXTS, Build, with_two_vocabularies
from tests.tools.server.models import english_and_french
from transformer import Translator
from transformer.files import EXPORT_MANIFEST
from transformer.inference.alignment_head import AlignmentHead
from transformer.inference.loading import ENGINES
from transformer.inference.translator import BEAM
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_a_safetensors_file_loads_as_the_rounded_model(taught: Translator, tmp_path: Path, precision: str) -> None:
    path, taught = tmp_path / "t.safetensors", copy(taught)
    taught.alignment = AlignmentHead(1, None, shifted=False)
    export(taught, ExportSettings("safetensors", precision, str(path)))  # type: ignore[arg-type]
    loaded = Translator.load(path)
    dtype = getattr(torch, precision)
    for name, weight in taught.model.named_parameters():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(loaded.model.get_parameter(name), weight.to(dtype).float(), rtol=0, atol=0)
    if precision == "float32":
        assert loaded.translate(TEXTS) == taught.translate(TEXTS)
    assert loaded.alignment == taught.alignment
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (("onnx", "int8", "out"), "--precision int8 is not for onnx: choose one of float32"),
        (("safetensors", "int8", "t.safetensors"), "--precision int8 is not for safetensors"),
        (("safetensors", "float32", "out"), r"must name a file that ends in \.safetensors"),
        (("page", "int8", "folder.html"), r"--output \S*folder\.html must name a file that ends in \.html"),
        (("onnx", "float32", "out", "ein Haus"), "--text is only for a page"),
        (("onnx", "float32", "out", None, "Unser Modell"), "--title is only for a page"),
        (("page", "int8", "page.html", None, None, "none.de"), r"--examples \S*none\.de: no such file"),
        (("onnx", "float32", "out.onnx"), r"--output \S*out\.onnx: onnx is a folder: leave out \.onnx"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_are_refused(
    settings: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.html").mkdir()
    with pytest.raises(ValueError, match=reason):
        ExportSettings(*settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("format", "name"),
    others_long([("ctranslate2", "engine"), ("huggingface", "hub"), ("safetensors", "t.safetensors")]),
)
def test_each_of_two_vocabularies_stays_on_its_side(tmp_path: Path, format: str, name: str) -> None:
    if format == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="the export extra is not installed")
    translator = with_two_vocabularies()
    export(translator, ExportSettings(format, None, str(tmp_path / name)))
    search = replace(BEAM, no_repeat=0)  # an untrained model repeats itself
    found = (ENGINES[EXPORT_MANIFEST] if format == "ctranslate2" else Translator.load)(tmp_path / name)
    for theirs, ours in zip(found.n_best(TEXTS, search), translator.n_best(TEXTS, search), strict=True):
        assert theirs[0].pieces == ours[0].pieces
        assert theirs[0].score == pytest.approx(ours[0].score, abs=1e-4)


def test_a_page_of_any_precision_is_called_by_the_name_of_its_model(build: Build, tmp_path: Path) -> None:
    for precision in ("int8", "float16", None):
        page = tmp_path / f"{precision}.html"
        export(build(), ExportSettings("page", precision, str(page), "ein Haus"), name="my-model")  # type: ignore[arg-type]
        assert '{"text":"ein Haus","name":"my-model"}' in page.read_text(encoding="utf-8")
    assert (tmp_path / "None.html").read_bytes() == (tmp_path / "int8.html").read_bytes()
    with pytest.raises(ValueError, match=r"None\.html is not .* give the run that it was exported from$"):
        Translator.load(tmp_path / "None.html")


def test_a_direction_that_was_not_learned_is_no_pages_and_is_marked_in_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = english_and_french()
    guess = Translator(model.model, model.tokenizers, ("en", "fr"), [("fr", "en"), ("en", "de")])
    for format, name in (("page", "p.html"), ("huggingface", "hub")):
        with pytest.raises(ValueError, match=rf"{format} has only .* fr → en, en → de: en → fr is not one of them"):
            export(guess, ExportSettings(format, None, str(tmp_path / name)))  # type: ignore[arg-type]
    export(guess, ExportSettings("safetensors", None, str(tmp_path / "t.safetensors")))
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]
    assert Translator.load(tmp_path / "t.safetensors").is_zero_shot
    assert [record.getMessage() for record in caplog.records] == [
        "en → fr was not trained, only fr → en, en → de: a guess"
    ]


def test_weights_too_large_for_a_precision_are_named(build: Build, tmp_path: Path) -> None:
    translator = build()
    with torch.no_grad():
        translator.model.decoder.norm.weight[2] = 1e6  # type: ignore[index, operator, union-attr]
    for format, name in (("ctranslate2", "engine"), ("safetensors", "t.safetensors")):
        with pytest.raises(ValueError, match=r"--precision float16 cannot hold decoder\.norm\.weight"):
            export(translator, ExportSettings(format, "float16", str(tmp_path / name)))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_its_remedy(
    taught: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {"ctranslate2", "onnxscript", *(name for name in sys.modules if name.startswith("ctranslate2."))}:
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    for name in ("ctranslate2", "engine", "onnx"):
        monkeypatch.delitem(sys.modules, f"transformer.tools.export.{name}", raising=False)
    for format in ("ctranslate2", "onnx"):
        with pytest.raises(ValueError, match=r"is not installed: pip install -e '\.\[export\]'"):
            export(taught, ExportSettings(format, "float32", str(tmp_path / "out")))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"ctranslate2 is not installed: pip install -e '\.\[export\]'"):
        ENGINES[EXPORT_MANIFEST]
