"""Where the numbers of a run go while it trains."""

import logging
import warnings
from pathlib import Path
from typing import Literal

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

LoggerName = Literal["csv", "tensorboard", "wandb"]


def first_process() -> bool:
    """Whether this is the process that speaks and writes for all."""
    return getattr(rank_zero_only, "rank", 0) == 0


def build_logger(name: LoggerName, folder: Path, resume: Path | None) -> Logger:
    if name == "tensorboard":
        return TensorBoardLogger(folder, name="", version="tensorboard")
    if name == "wandb":
        return WandbLogger(save_dir=folder)
    metrics = folder / "metrics.csv"
    earlier = metrics.read_text() if resume and metrics.exists() and first_process() else ""
    logger = CSVLogger(folder, name="", version="")
    if earlier:
        # Lightning empties the file of a folder that it finds: a resumed run keeps its history.
        writer = logger.experiment
        metrics.write_text(earlier)
        writer.metrics_keys = sorted(earlier.splitlines()[0].split(","))
    return logger


def quiet() -> None:
    """Lightning's own advice is about choices that are ours, and its tips are no results."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", module="torch.utils.data")
