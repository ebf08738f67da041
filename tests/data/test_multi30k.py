"""Multi30k in languages without a published sha256: the files are read from the user's folder."""

import hashlib
from pathlib import Path

import pytest

from tests.factories import data_settings


@pytest.mark.parametrize("language", ["fr", "cs"])
def test_another_language_is_read_from_the_directory_or_its_file_is_named(tmp_path: Path, language: str) -> None:
    overrides = ["data=multi30k", f"data.directory='{tmp_path}'", "data.source_language=en"]
    settings = data_settings(*overrides, f"data.target_language={language}")
    for name in settings.sha256:
        # The test replaces the one published sha256, of the English file.
        (tmp_path / name).write_bytes(b"\x1f\x8b published")
        settings.sha256[name] = hashlib.sha256(b"\x1f\x8b published").hexdigest()
    settings.fetch()
    with pytest.raises(FileNotFoundError, match=rf"no corpus file .*train\.{language}\.gz: put it there"):
        settings.files("train")
    (tmp_path / f"train.{language}.gz").write_bytes(b"")
    assert settings.files("train") == [tmp_path / "train.en.gz", tmp_path / f"train.{language}.gz"]
