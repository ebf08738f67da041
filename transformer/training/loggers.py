"""Where the numbers of a run go while it trains."""

import logging
import warnings
from pathlib import Path

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.utilities import rank_zero_only

from transformer.data.corpus import MAX_DIRECTIONS
from transformer.files import METRICS_LOG, atomic_write, read_file
from transformer.training.config import LoggerName

# Of metrics.csv, which may be a stranger's; a column for each direction.
MAX_LOG_BYTES, MAX_ROW_BYTES = 1 << 28, 10_000 + 200 * MAX_DIRECTIONS


def is_rank_zero() -> bool:
    """Whether this is the process that prints and writes for all."""
    return getattr(rank_zero_only, "rank", 0) == 0


def _is_utf8(row: bytes) -> bool:
    try:
        row.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_rows(path: Path) -> list[bytes]:
    """The heading and the rows of metrics.csv. Raises ValueError, naming the file, for what is no log of a run."""
    rows = read_file(path, MAX_LOG_BYTES).splitlines(keepends=True)
    for number, row in enumerate(rows, 1):
        if len(row) > MAX_ROW_BYTES or b'"' in row or b"\0" in row or not _is_utf8(row):
            raise ValueError(f"{path} line {number} is no row of numbers: delete the file, or put back what it held")
    return rows


class CSVFile(ExperimentWriter):
    """Goes on after so many rows of what is there, where Lightning's would begin by deleting it."""

    def __init__(self, path: Path, rows: int) -> None:
        there = read_rows(path) if rows and path.exists() else []
        if there:
            atomic_write(path, b"".join(there[: 1 + rows]))
        else:
            path.unlink(missing_ok=True)
        super().__init__(str(path.parent))
        self.metrics_keys = sorted(there[0].decode().strip().split(",")) if there else []

    def _check_log_dir_exists(self) -> None:
        pass


def build_logger(name: LoggerName, folder: Path, rows: int, steps: int) -> Logger:
    """A resumed run keeps its history as it was at its checkpoint: `rows` of metrics.csv, the points of `steps`."""
    if name == "tensorboard":
        return TensorBoardLogger(folder, name="", version="tensorboard", purge_step=steps or None)
    if name == "wandb":
        return WandbLogger(save_dir=folder)
    logger = CSVLogger(folder, name="", version="")
    if is_rank_zero():
        logger._experiment = CSVFile(folder / METRICS_LOG, rows)
    return logger


def silence_lightning() -> None:
    """Silences Lightning's tips, and its advice about what this project has chosen on purpose."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", module="torch.utils.data")
