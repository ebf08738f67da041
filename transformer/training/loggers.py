"""Where the numbers of a run go while it trains."""

import logging
import warnings
from pathlib import Path
from typing import Literal

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.utilities import rank_zero_only

from transformer.files import atomic_write

LoggerName = Literal["csv", "tensorboard", "wandb"]


def first_process() -> bool:
    """Whether this is the process that prints and writes for all."""
    return getattr(rank_zero_only, "rank", 0) == 0


def build_logger(name: LoggerName, folder: Path, rows: int, steps: int) -> Logger:
    """A resumed run keeps its history as it was at its checkpoint: `rows` of metrics.csv, the points of `steps`."""
    if name == "tensorboard":
        return TensorBoardLogger(folder, name="", version="tensorboard", purge_step=steps or None)
    if name == "wandb":
        return WandbLogger(save_dir=folder)
    logger = CSVLogger(folder, name="", version="")
    if first_process():
        logger._experiment = CSVFile(folder / "metrics.csv", rows)
    return logger


class CSVFile(ExperimentWriter):
    """Goes on after so many rows of what is there, where Lightning's would begin by deleting it."""

    def __init__(self, path: Path, rows: int) -> None:
        there = path.read_bytes().splitlines(keepends=True) if rows and path.exists() else []
        if there:
            atomic_write(path, b"".join(there[: 1 + rows]))
        else:
            path.unlink(missing_ok=True)
        super().__init__(str(path.parent))
        self.metrics_keys = sorted(there[0].decode().strip().split(",")) if there else []

    def _check_log_dir_exists(self) -> None:
        pass


def quiet() -> None:
    """Silences Lightning's tips, and its advice about what this project has chosen on purpose."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", module="torch.utils.data")
