from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.tools.server.client import Serving
    from transformer import Translator


@pytest.fixture(scope="session")
def translator() -> Translator:
    from tests.tools.server.models import german_to_english

    return german_to_english()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, translator: Translator) -> Path:
    """A folder with de_en.safetensors and en_fr.safetensors, which has learned both directions."""
    from tests.tools.server.models import english_and_french

    folder = tmp_path_factory.mktemp("served")
    translator.save(folder / "de_en.safetensors")
    english_and_french().save(folder / "en_fr.safetensors")
    return folder


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Serving]:
    """Serves all three directions; texts of at most 2,000 characters."""
    from tests.tools.server.client import Serving
    from tests.tools.server.models import BOTH

    serving = Serving(*BOTH, "--max-characters", "2000", cwd=folder)
    yield serving
    serving.run.send_signal(15)
    serving.run.wait()
