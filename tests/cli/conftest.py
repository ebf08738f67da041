from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.cli.project import make_project

    return make_project(tmp_path_factory.mktemp("a project = ä"))
