"""An export as a user makes and uses it: the same command translates with it, and the other scripts refuse it."""

import re
from pathlib import Path

import pytest

from tests.scripts.running import ok, refused
from tests.tools.export.models import TEXTS
from transformer import Translator
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export

pytest.importorskip("ctranslate2", reason="the export extra is not installed")


def test_translate_takes_an_export_and_keeps_every_line(taught: Translator, tmp_path: Path) -> None:
    taught.save(tmp_path / "t.safetensors")
    printed = ok("export", "ctranslate2", "--checkpoint", "t.safetensors", "--output", "engine", cwd=tmp_path)
    assert printed.strip() == str(tmp_path / "engine")
    given = "".join(f"{text}\n" for text in TEXTS)
    translated = ok("translate", "--checkpoint", "engine", "--split-lines", "never", cwd=tmp_path, given=given)
    assert translated.split("\n") == [*taught.translate(TEXTS), ""]
    assert "--checkpoint engine is an export" in refused("evaluate", "--checkpoint", "engine", cwd=tmp_path)


def test_an_export_does_not_replace_the_folder_that_it_is_made_of(taught: Translator, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    export(taught, ExportSettings("huggingface", None, str(hub)))
    before = {path.name for path in hub.iterdir()}
    said = refused("export", "huggingface", "--checkpoint", "hub", "--output", str(hub), cwd=tmp_path)
    assert "is the model to export, which must stay unchanged" in said
    assert {path.name for path in hub.iterdir()} == before


@pytest.mark.parametrize(("format", "file"), [("huggingface", "model.safetensors"), ("ctranslate2", "model.bin")])
def test_one_file_of_a_folder_is_refused_with_the_name_of_the_folder(
    taught: Translator, tmp_path: Path, format: str, file: str
) -> None:
    export(taught, ExportSettings(format, None, str(tmp_path / "folder")))
    with pytest.raises(
        ValueError, match=rf"it is one file of a model: give its folder, {re.escape(str(tmp_path / 'folder'))}$"
    ):
        Translator.load(tmp_path / "folder" / file)
