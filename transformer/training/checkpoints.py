"""The checkpoint of a run: its content, saved whole or not at all, and how training continues from it."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from lightning import Fabric

from transformer.config import from_dict
from transformer.files import atomic_file
from transformer.inference.model_file import load_training
from transformer.printing import one_line, say
from transformer.run import BEST_CHECKPOINT, FORMAT, Run
from transformer.training.averaging import WeightAverage
from transformer.training.module import TranslationModule

# Far above any count of a real run: a checkpoint with a larger one was not written by this program.
Count = Annotated[int, ">= 0", "<= 1000000000000"]
# A checkpoint that a run can continue from has these keys.
KEYS = ("progress", "optimizer", "averaging", "precision", "seconds", "sharding", "settings")


@dataclass(frozen=True)
class TrainProgress:
    """The progress of a run between two updates."""

    epoch: Count = 0  # finished epochs
    batch: Count = 0  # finished batches of the current epoch, by each process
    step: Count = 0  # finished updates
    validated_step: Annotated[int, ">= -1", "<= 1000000000000"] = -1  # the last validated step; -1: none
    best_score: float | None = None  # of all validations so far
    not_better: Count = 0  # validations in a row, since the best
    log_rows: Count = 0


def write_checkpoint(path: Path, checkpoint: dict[str, Any]) -> None:
    """Writes a file whole or not at all."""
    with atomic_file(path) as file:
        torch.save(checkpoint, file)


def read_run(path: Path) -> dict[str, Any]:
    """Reads and checks a whole checkpoint. Raises ValueError for one that no run can continue from."""
    checkpoint = load_training(path)
    if checkpoint.get("format") != FORMAT or any(key not in checkpoint for key in KEYS):
        raise ValueError(
            f"{path} was written by another version of this program and cannot be resumed; init_from={path} begins a "
            "new run with its weights"
        )
    progress = checkpoint["progress"]
    if isinstance(progress, dict) and "best_bleu" in progress:  # an earlier version wrote this name
        progress["best_score"] = progress.pop("best_bleu")
    from_dict(TrainProgress, progress, f"{path}: progress")
    return checkpoint


class Checkpoints:
    """Saves and loads the state of a run, in its `folder`. `settings` go into every checkpoint. `sharding`, with seed
    and corpus, decides which batches a process gets."""

    def __init__(
        self,
        folder: Path,
        fabric: Fabric,
        module: TranslationModule,
        optimizer: torch.optim.Optimizer,
        average: WeightAverage,
        sharding: list[int | float],
        settings: dict[str, Any],
    ) -> None:
        self.folder, self.fabric, self.module, self.optimizer = folder, fabric, module, optimizer
        self.average, self.sharding, self.settings = average, sharding, settings

    def save(self, progress: TrainProgress, seconds: float, *names: str) -> None:
        """Writes checkpoints of these names; `seconds` is the time that the run has taken. Their `state_dict` holds
        the average of the weights, if there is one, because it translates better."""
        for logger in self.fabric.loggers:
            logger.save()
        with self.average.in_use():
            checkpoint: dict[str, Any] = {
                "state_dict": self.module.state_dict(),
                "hyper_parameters": dict(self.module.hparams),
            }
            self.module.on_save_checkpoint(checkpoint)
        checkpoint |= {
            "format": FORMAT,
            "progress": asdict(progress),
            "optimizer": self.optimizer.state_dict(),
            "averaging": self.average.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),  # the scale of fp16
            "seconds": seconds,
            "sharding": self.sharding,
            "settings": self.settings,
        }
        if BEST_CHECKPOINT in names:
            # If the run had already ended once, these are made from its old best weights.
            for left in (Run(self.folder).translator, Run(self.folder).results):
                left.unlink(missing_ok=True)
        for name in names:
            write_checkpoint(self.folder / name, checkpoint)

    def load(self, checkpoint: dict[str, Any], path: Path) -> tuple[TrainProgress, float]:
        """Loads the states that `read_run` has read from the file `path`, but keeps the present settings; returns the
        progress and the seconds that the run has taken. Raises ValueError for states that do not fit."""
        self.module.on_load_checkpoint(checkpoint)
        try:
            self.module.load_state_dict(checkpoint["state_dict"])
            self.average.load_state_dict(checkpoint["averaging"])
            groups = self.optimizer.param_groups
            # Weight decay, betas, … keep their present settings. The learning rate is set at every step.
            options = [{key: group[key] for key in group if key not in ("params", "lr")} for group in groups]
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            for group, now in zip(self.optimizer.param_groups, options, strict=True):
                group.update(now)
            self.fabric.strategy.precision.load_state_dict(checkpoint["precision"])
            progress = from_dict(TrainProgress, checkpoint["progress"], "progress")
            seconds = float(checkpoint["seconds"])
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {one_line(error, 200)}"
            raise ValueError(f"{path}: no run can continue from it: its states do not fit ({reason})") from error
        if checkpoint["sharding"] != self.sharding and progress.batch > 0:
            progress = replace(progress, epoch=progress.epoch + 1, batch=0)
            if self.fabric.is_global_zero:
                say(f"processes or batches have changed: the run continues with its next epoch, {progress.epoch}")
        return progress, seconds
