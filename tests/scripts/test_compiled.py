"""training.compile changes how fast a run is (on a GPU), not what it learns."""

import csv
from pathlib import Path

import pytest

from tests.scripts.running import SMALL, ok


def test_a_compiled_run_learns_and_translates_as_a_plain_one(tmp_path: Path) -> None:
    # Two steps, one layer and no validation: each further mode of a pass is compiled for seconds.
    short = ("trainer.max_steps=2", "model.layers=1", "trainer.log_every_n_steps=1", "loggers=[csv]")
    few = ("trainer.limit_val_batches=0", "trainer.limit_test_batches=1", "search=greedy")
    for name, backend in (("plain", "null"), ("compiled", "aot_eager")):
        ok("train", *SMALL, f"training.compile={backend}", *short, *few, f"hydra.run.dir={name}", cwd=tmp_path)
    tables = [(tmp_path / name / "metrics.csv").read_text().splitlines() for name in ("plain", "compiled")]
    plain, compiled = ([row["train/loss"] for row in csv.DictReader(table) if row["train/loss"]] for table in tables)
    assert len(plain) == 2
    assert list(map(float, compiled)) == pytest.approx(list(map(float, plain)), rel=1e-5)
    files = [tmp_path / name / "hypotheses.test.txt" for name in ("plain", "compiled")]
    assert files[0].read_bytes() == files[1].read_bytes()
