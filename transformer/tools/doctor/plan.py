"""The plan of a run on the corpus: its settings, its tokenizer and its steps. Nothing is trained."""

import math
from dataclasses import dataclass
from typing import Any

from transformer.data.batching import limited
from transformer.data.datamodule import TranslationData
from transformer.training.checks import check_limits
from transformer.training.config import RunSettings, TrainerSettings
from transformer.training.train import build_translator, prepare_data


@dataclass
class Plan:
    """The settings of a run, those of its model as plain data, and the settings that the corpus has chosen.

    `data` is the corpus, prepared for the run; or `error` says why it cannot be used for training.
    """

    settings: RunSettings
    model: dict[str, Any]
    chosen: dict[str, Any]
    data: TranslationData | None = None
    error: str = ""


def prepare(plan: Plan) -> None:
    """Prepares the corpus of a plan, or sets its error."""
    try:
        data = prepare_data(plan.settings, None)
        build_translator(plan.settings, plan.model, data, None)  # refuses sentences that are too long for the model
        check_limits(data, plan.settings.trainer)
    except ValueError as error:
        plan.error = str(error)
    else:
        plan.data = data


def run_length(data: TranslationData, trainer: TrainerSettings) -> dict[str, int | float] | None:
    """The steps in the settings of a run, and how many epochs these are in one process; None if only the time or the
    validations end it."""
    accumulated = trainer.accumulate_grad_batches
    batches = limited(len(data.sampler("train", 0, 1, accumulated)), trainer.limit_train_batches)
    steps_per_epoch = batches // accumulated
    limits = [limit for limit in (trainer.steps, trainer.max_epochs * steps_per_epoch) if 0 < limit < math.inf]
    return {"steps": min(limits), "epochs": min(limits) / steps_per_epoch} if limits else None
