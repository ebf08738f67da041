from pathlib import Path

import pytest

from tests.cli.project import make_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("a project = ä"))
