"""Multi30k in the languages whose files have no published sha256: read where a person has put them."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from transformer.config import from_dict
from transformer.data.corpus import DataSettings

CONFIG = Path(__file__).parents[2] / "configs" / "data" / "multi30k.yaml"


@pytest.mark.parametrize("language", ["fr", "cs"])
def test_another_language_is_read_from_the_directory_or_its_file_is_named(tmp_path: Path, language: str) -> None:
    loaded = OmegaConf.merge(OmegaConf.load(CONFIG), {"directory": str(tmp_path), "cache": str(tmp_path)})
    plain: dict[str, Any] = OmegaConf.to_container(loaded, resolve=True)  # type: ignore[assignment]
    plain |= {"source_language": "en", "target_language": language}
    for name in plain["sha256"]:
        # Only English is checked, as it is published.
        (tmp_path / name).write_bytes(b"\x1f\x8b published")
        plain["sha256"][name] = hashlib.sha256(b"\x1f\x8b published").hexdigest()
    settings = from_dict(DataSettings, plain, "data")
    settings.fetch()
    with pytest.raises(FileNotFoundError, match=rf"no corpus file .*train\.{language}\.gz: put it there"):
        settings.files("train")
    (tmp_path / f"train.{language}.gz").write_bytes(b"")
    assert settings.files("train") == [tmp_path / "train.en.gz", tmp_path / f"train.{language}.gz"]
