"""An export as a user makes and uses one: the same command line translates with it, the other scripts refuse it."""

from pathlib import Path

import pytest

from tests.export.models import TEXTS
from tests.scripts.running import ok, refused
from transformer import Translator

pytest.importorskip("ctranslate2", reason="the export extra is not installed")


def test_translate_takes_an_export_and_keeps_every_line(taught: Translator, tmp_path: Path) -> None:
    taught.save(tmp_path / "t.safetensors")
    printed = ok("export", "checkpoint=t.safetensors", "output=engine", cwd=tmp_path)
    assert printed.strip() == str(tmp_path / "engine")
    given = "".join(f"{text}\n" for text in TEXTS)
    translated = ok("translate", "checkpoint=engine", "split_lines=never", cwd=tmp_path, given=given)
    assert translated.split("\n") == [*taught.translate(TEXTS), ""]
    assert "checkpoint=engine is an export" in refused("evaluate", "checkpoint=engine", cwd=tmp_path)
