"""The log of a resumed run: rows after its checkpoint are removed, earlier ones stay."""

from pathlib import Path

import pytest

from transformer.tools.loggers import csv, read_log, tensorboard

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def logged(folder: Path, rows: int, *steps: int) -> list[str]:
    """The file after logging these steps in addition to the existing `rows`."""
    logger = csv(folder, rows, steps=rows)
    for step in steps:
        logger.log_metrics({"train/loss": float(step)}, step)
        logger.save()
    return (folder / "metrics.csv").read_text(encoding="utf-8").splitlines()


def test_a_log_goes_on_after_the_rows_of_its_checkpoint(tmp_path: Path) -> None:
    assert logged(tmp_path, 0, 1, 2, 3) == ["step,train/loss", "1,1.0", "2,2.0", "3,3.0"]
    assert logged(tmp_path, 2, 9) == ["step,train/loss", "1,1.0", "2,2.0", "9,9.0"]


def test_a_new_run_begins_its_log_anew(tmp_path: Path) -> None:
    logged(tmp_path, 0, 1, 2)
    assert logged(tmp_path, 0, 5) == ["step,train/loss", "5,5.0"]


def test_a_log_that_was_emptied_or_is_gone_begins_anew(tmp_path: Path) -> None:
    assert logged(tmp_path, 3, 5) == ["step,train/loss", "5,5.0"]
    (tmp_path / "metrics.csv").write_bytes(b"")
    assert logged(tmp_path, 3, 5) == ["step,train/loss", "5,5.0"]


def test_tensorboard_forgets_what_was_logged_after_the_checkpoint(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for done, steps in ((0, (1, 2, 3, 4)), (2, (3, 5))):
        logger = tensorboard(tmp_path, rows=done, steps=done)
        for step in steps:
            logger.log_metrics({"loss": 15.0 * done + step}, step)
        logger.finalize("success")
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 1), (2, 2), (3, 33), (5, 35)]


@pytest.mark.parametrize("row", [b"x,2\n", b"1,\xff\n", b"1,two\n", b"1,2,3\n"])
def test_a_damaged_log_is_refused_by_its_name(tmp_path: Path, row: bytes) -> None:
    (tmp_path / "metrics.csv").write_bytes(b"step,train/loss\n1,1.0\n" + row)
    with pytest.raises(ValueError, match=r"metrics\.csv is no log of a run: delete it, or restore"):
        read_log(tmp_path / "metrics.csv")
