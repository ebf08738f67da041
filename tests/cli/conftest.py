import os
from pathlib import Path

import pytest


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three stopped runs; the trial of a sweep is the newest."""
    for age, name in enumerate(["sweep/0", "later", "early"]):
        path = tmp_path / "runs" / name / "checkpoints" / "last.ckpt"
        path.parent.mkdir(parents=True)
        path.write_text("", encoding="utf-8")
        os.utime(path, (1e9 - age, 1e9 - age))
    return tmp_path / "runs"
