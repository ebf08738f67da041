from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import Serving
from tests.server.models import english_and_french, german_to_english
from transformer import Translator


@pytest.fixture(scope="session")
def translator() -> Translator:
    return german_to_english()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, translator: Translator) -> Path:
    """With de_en.safetensors and en_fr.safetensors, which has learned both directions."""
    folder = tmp_path_factory.mktemp("served")
    translator.save(folder / "de_en.safetensors")
    english_and_french().save(folder / "en_fr.safetensors")
    return folder


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Serving]:
    """Serves all three directions; texts of at most 2,000 characters."""
    serving = Serving("checkpoint=[de_en.safetensors, en_fr.safetensors]", "max_characters=2000", cwd=folder)
    yield serving
    serving.run.send_signal(15)
    serving.run.wait()
