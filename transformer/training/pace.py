"""How many steps fit into trainer.max_time: some are timed before the first update, on a copy of the model.

The clock decides on nothing else. So a run that is resumed, or repeated with the same number of steps, has the same
weights.
"""

import math
import statistics
import time
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning import Fabric

from transformer.config import with_values
from transformer.data.datamodule import TranslationData
from transformer.evaluation.evaluate import evaluate
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import Translator
from transformer.signals import SignalHandler
from transformer.training.config import RunSettings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.loop import Training
from transformer.training.module import TranslationModule
from transformer.training.reporter import spread

# Shares of the time: for the whole plan, for timing the steps, and at least for training, even if validations and test
# take long.
PLANNED, TIMED, TRAINING = 0.95, 0.02, 0.5
WARMUP, MIN_STEPS, MAX_STEPS = 1, 2, 20  # numbers of timed steps: the first one allocates memory and chooses kernels
SENTENCES = 64  # translated for timing, from validation and from each test
# If training.validate_every is not typed: the most validations, and the share of the time that they take.
VALIDATIONS, VALIDATING = 10, 0.1


class Pace(NamedTuple):
    """Seconds of a step, of a validation and of the test; and the seconds that were spent on timing them."""

    step: float
    validation: float
    test: float
    spent: float = 0.0

    def validations_in(self, seconds: float) -> int:
        """How many validations fit into this time."""
        return max(1, min(VALIDATIONS, int(VALIDATING * seconds / max(self.validation, 1e-9))))

    def __str__(self) -> str:
        return f"{self.step:.2g} s a step, {self.validation:.2g} s a validation, {self.test:.2g} s the test"


def _seconds_of_steps(trial: Training, limit: float) -> float:
    """The median time of some steps: as many as fit into the `limit`, but a few at least."""
    trial.module.train()
    found: list[float] = []
    for batches in trial.batches_of_steps():
        started = time.perf_counter()
        trial.optimizer.zero_grad()
        trial.backward(batches)
        trial.optimizer.optimizer.step()  # Fabric's own would change the scale of fp16
        if trial.fabric.device.type == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
        enough = len(found) >= WARMUP + MIN_STEPS and sum(found) >= limit
        if trial.fabric.broadcast(enough or len(found) == WARMUP + MAX_STEPS):  # the same number in all processes
            break
    return statistics.median(found[WARMUP:])


def _seconds_of_split(trial: Training, name: str, search: SearchSettings, limit: int | float, with_loss: bool) -> float:
    """The time of a split, estimated from some sentences. An untrained model does not know when to end, and repeats
    itself: so they are translated once, to the length of usual translations."""
    pairs = trial.data.text_pairs(name, limit)
    some = [pairs[index] for index in spread(len(pairs), SENTENCES)]
    source, target = (side.sum() for side in trial.data.split(name).lengths(0))
    usual = replace(search, length_ratio=float(target / max(1, source)), length_extra=1, no_repeat=0)
    started = time.perf_counter()
    evaluate(trial.translators[name], some, usual, trial.settings.metrics, with_loss=with_loss)
    return (time.perf_counter() - started) * len(pairs) / len(some)


def measure_pace(
    fabric: Fabric,
    translator: Translator,
    data: TranslationData,
    settings: RunSettings,
    folder: Path,
    signals: SignalHandler,
    guide: GuidedAlignment | None,
) -> Pace:
    """Times a validation, the test and some steps. It changes neither the model nor any random state."""
    started = time.perf_counter()
    twin = copy(translator)
    twin.model = deepcopy(translator.model)
    once = with_values(settings, {"trainer.max_steps": 1, "training.choose_by": "bleu"})  # so that no note is printed
    with torch.random.fork_rng([fabric.device] if fabric.device.type == "cuda" else []):
        trial = Training(fabric, TranslationModule(twin, settings.training), data, once, {}, folder, signals, guide)
        trainer = settings.trainer
        validations = trial.validation_pairs if trial.has_validation else ()
        validation = sum(
            _seconds_of_split(trial, name, settings.validation_search, trainer.limit_val_batches, with_loss=True)
            for name in validations
        )
        tests = data.test_names if settings.test else ()
        test = sum(
            _seconds_of_split(trial, name, settings.search, trainer.limit_test_batches, with_loss=False)
            for name in tests
        )
        step = _seconds_of_steps(trial, TIMED * (trainer.max_seconds or math.inf))
    return Pace(step, validation, test, time.perf_counter() - started)


def fitting_steps(
    settings: RunSettings, chosen: dict[str, Any], pace: Pace, seconds: float, done: int = 0
) -> dict[str, int]:
    """Settings by name: the number of steps that fit into these seconds after the `done` ones, if it is less than in
    the settings; and a shorter warm-up and interval of validations, if they were `chosen` by the program."""
    seconds, training = PLANNED * seconds - pace.spent, settings.training
    if "training.validate_every" in chosen:
        validations, seconds_of_step = pace.validations_in(seconds), pace.step
    else:
        validations, seconds_of_step = 1, pace.step + pace.validation / training.validate_every
    # At the end the weights of the last step are validated as well as their average.
    left = seconds - pace.test - (validations + 1) * pace.validation
    steps = done + max(1, int(max(TRAINING * seconds, left) / seconds_of_step))
    if steps >= settings.trainer.steps:
        return {}
    shorter = {
        "training.warmup_steps": min(training.warmup_steps, max(1, steps // 10)),
        "training.validate_every": min(training.validate_every, math.ceil(steps / validations)),
    }
    return {"trainer.max_steps": steps} | {name: value for name, value in shorter.items() if name in chosen}
