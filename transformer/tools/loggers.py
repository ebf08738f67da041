"""The loggers of a run while it trains: Lightning's, in the run's folder."""

import csv as csv_file
from pathlib import Path
from typing import Any

from lightning.fabric.loggers import CSVLogger, Logger, TensorBoardLogger

from transformer.processes import rank
from transformer.run import Run


def read_log(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The step and the numbers of each row of a metrics.csv. Raises ValueError that names any other file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv_file.DictReader(file))
        return [
            (int(row.pop("step")), {name: int(n) if n.isdecimal() else float(n) for name, n in row.items() if n})
            for row in rows
        ]
    except FileNotFoundError:
        return []
    except (KeyError, TypeError, ValueError, AttributeError, csv_file.Error) as error:
        raise ValueError(f"{path} is no log of a run: delete it, or restore the file ({error})") from error


def csv(folder: Path, rows: int = 0, steps: int = 0) -> Logger:
    """metrics.csv. A resumed run keeps its first `rows`, up to its checkpoint."""
    logger, log = CSVLogger(folder, name="", version=""), Run(folder).metrics_log
    if rank() == 0:
        # Lightning's logger begins a new file, so the rows up to the checkpoint are logged again.
        for step, numbers in read_log(log)[:rows] if rows else ():
            logger.log_metrics(numbers, step)
        logger.save()
    return logger


def tensorboard(folder: Path, rows: int = 0, steps: int = 0) -> Logger:
    """The folder tensorboard. A resumed run keeps the points of its first `steps`."""
    return TensorBoardLogger(folder, name="", version="tensorboard", purge_step=steps + 1 if steps else None)


def wandb(folder: Path, rows: int = 0, steps: int = 0) -> Logger:
    """Weights & Biases."""
    from lightning.pytorch.loggers import WandbLogger

    return WandbLogger(save_dir=folder)
