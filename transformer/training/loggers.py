"""Where the numbers of a run go while it trains: Lightning's loggers, in the run's folder."""

import csv
import logging
import warnings
from pathlib import Path

from lightning.fabric.loggers import CSVLogger, Logger, TensorBoardLogger

from transformer.files import METRICS_LOG
from transformer.processes import rank
from transformer.training.config import LoggerName


def build_logger(name: LoggerName, folder: Path, rows: int = 0, steps: int = 0) -> Logger:
    """A resumed run keeps its history as it was at its checkpoint: `rows` of metrics.csv, the points of `steps`."""
    if name == "tensorboard":
        return TensorBoardLogger(folder, name="", version="tensorboard", purge_step=steps + 1 if steps else None)
    if name == "wandb":
        from lightning.pytorch.loggers import WandbLogger

        return WandbLogger(save_dir=folder)
    logger, log = CSVLogger(folder, name="", version=""), folder / METRICS_LOG
    if rank() == 0:
        kept: list[dict[str, str]] = []
        if rows and log.exists():
            with log.open(encoding="utf-8", newline="") as file:
                kept = list(csv.DictReader(file))[:rows]
        # Lightning's logger begins a new file: the rows until the checkpoint are logged again.
        for row in kept:
            step = int(row.pop("step"))
            values = {name: int(value) if value.isdecimal() else float(value) for name, value in row.items() if value}
            logger.log_metrics(values, step)  # type: ignore[arg-type]
        logger.save()
    return logger


def silence_lightning() -> None:
    """Silences Lightning's tips, and its advice about what this project has chosen on purpose."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", module="torch.utils.data")
