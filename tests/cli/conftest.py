import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.cli.project import make_project

    return make_project(tmp_path_factory.mktemp("a project = ä"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three stopped runs; the trial of a sweep is the newest."""
    for age, name in enumerate(["sweep/0", "later", "early"]):
        path = tmp_path / "runs" / name / "checkpoints" / "last.ckpt"
        path.parent.mkdir(parents=True)
        path.write_text("", encoding="utf-8")
        os.utime(path, (1e9 - age, 1e9 - age))
    return tmp_path / "runs"


@contextmanager
def job_in(folder: Path, *overrides: str) -> Iterator[Path]:
    """This process carries out a job of Hydra's in a folder."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import open_dict

    from transformer.cli.compose import compose_all

    config = compose_all("train", list(overrides))
    with open_dict(config.hydra.runtime):
        config.hydra.runtime.output_dir = str(folder)
    HydraConfig.instance().set_config(config)
    yield folder
    HydraConfig.instance().cfg = None


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Path]:
    """The folder of the trial of a sweep that this process carries out."""
    with job_in(tmp_path, "hydra.mode=MULTIRUN", "hydra.job.num=0") as folder:
        yield folder


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run that this process carries out, which is no trial."""
    with job_in(tmp_path, "hydra.mode=RUN", f"hydra.run.dir={tmp_path}") as folder:
        yield folder
