"""How a run on the corpus would be made: the preset for its size, its tokenizer and its steps. Nothing is trained."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformer.data.batching import limited
from transformer.data.datamodule import TranslationData
from transformer.training.checks import check_limits
from transformer.training.config import RunSettings, TrainerSettings
from transformer.training.train import build_translator, prepare_data

# Experiments by the number of training pairs: each for fewer than this, the last for any number.
PRESETS = {"pairs_2k": 4_500, "pairs_10k": 22_000, "pairs_50k": 100_000, "pairs_200k": None}


def preset_for(pairs: int) -> str:
    """The experiment for a corpus of so many pairs. Between two of them the limit is their sizes' geometric mean."""
    return next(name for name, limit in PRESETS.items() if limit is None or pairs < limit)


@dataclass
class Plan:
    """The settings of a run, those of its model as plain data, and the experiment that they come from, if any.

    `overrides` lead to them, together with what was typed. `data` is the corpus as the run would take it, or else
    `error` says why it cannot be trained on.
    """

    overrides: tuple[str, ...]
    settings: RunSettings
    model: dict[str, Any]
    experiment: str | None
    data: TranslationData | None = None
    error: str = ""


def make_plan(preset: str, plan_for: Callable[[tuple[str, ...]], Plan]) -> Plan:
    """The plan of a run with this preset, its corpus prepared; `plan_for` puts overrides beneath what was typed.

    Where the preset does not suit the typed tokenizer, the plan has further overrides.
    """
    plan = plan_for((f"experiment={preset}",))
    if plan.settings.tokenizer.kind not in ("bpe", "unigram") and plan.settings.training.bpe_dropout:
        plan = plan_for((*plan.overrides, "training.bpe_dropout=0"))
    try:
        data = prepare_data(plan.settings, None)
        build_translator(plan.settings, plan.model, data, None)  # refuses sentences that are too long for the model
        check_limits(data, plan.settings.trainer)
    except ValueError as error:
        plan.error = str(error)
    else:
        plan.data = data
    return plan


def run_length(data: TranslationData, trainer: TrainerSettings) -> dict[str, int | float] | None:
    """The steps of a run as they are set, and the epochs that these make in one process; None where only the time or
    the validations end it."""
    accumulated = trainer.accumulate_grad_batches
    batches = limited(len(data.sampler("train", 0, 1, accumulated)), trainer.limit_train_batches)
    steps_per_epoch = batches // accumulated
    limits = [limit for limit in (trainer.steps, trainer.max_epochs * steps_per_epoch) if 0 < limit < math.inf]
    return {"steps": min(limits), "epochs": min(limits) / steps_per_epoch} if limits else None


def preset_advice(preset: str, pairs: int, experiment: str | None) -> str:
    """The recommended experiment, and what is used in its place."""
    text = f"recommended for {pairs:,} pairs: experiment={preset}"
    if experiment == preset:
        return text
    return f"{text}; used here: {f'experiment={experiment}' if experiment else 'the settings as given'}"
