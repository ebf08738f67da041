"""What can be trained in so many minutes: which model, for how long, and a schedule that fits."""

import math
from dataclasses import dataclass

from transformer.data.datamodule import TranslationData
from transformer.doctor.estimate import CostEstimate, Training

# Where the recommended experiment gets too few steps: the smallest model, which does many steps in little time.
SMALLEST_PRESET = "pairs_2k"
SMALLEST_PRESET_VOCABULARY = 2000  # its vocabulary for more than some 2,000 pairs
ENOUGH_STEPS = 1000  # below this the smallest model learns more in the same time
MIN_TRAINING_STEPS = 50
VALIDATIONS = 3
MAX_SHARE = 0.15  # of the time, for all validations; else there is only the one at the end
FEW_EPOCHS = 20  # over fewer than these nothing is memorized: less dropout learns more
# The start is timed; the end (the best weights, the model card, pictures) takes about half as long.
START_AND_END = 1.5


@dataclass
class Candidate:
    """A training that may be proposed, by the overrides that choose it: its data, or why there are none, and its
    cost, once it is known. One that stands in for the recommended experiment is of a preset for a smaller corpus."""

    overrides: tuple[str, ...]
    training: Training
    data: TranslationData | None
    error: str
    stands_in: bool = False
    cost: CostEstimate | None = None


@dataclass(frozen=True)
class Proposal:
    """A run for so many minutes: what to type for it beside the corpus, its steps, and the seconds of its parts."""

    minutes: float
    overrides: tuple[str, ...]
    steps: int
    parts: dict[str, float]

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())


def what_to_try(preset: str) -> list[tuple[str, ...]]:
    """Overrides to time for a corpus with this recommended experiment: the experiment, and the smallest."""
    recommended = (f"experiment={preset}",)
    if preset == SMALLEST_PRESET:
        return [recommended]
    return [recommended, (f"experiment={SMALLEST_PRESET}", f"tokenizer.vocabulary_size={SMALLEST_PRESET_VOCABULARY}")]


def besides_training(candidate: Candidate) -> dict[str, float]:
    """The seconds of a run beside its training."""
    cost = candidate.cost
    assert cost is not None
    last = cost.seconds_to_test
    if candidate.training.settings.training.averaging.kind != "none":  # the last step's weights are validated too
        last += cost.seconds_per_validation
    return {"start and end": START_AND_END * cost.seconds_to_start, "last validation and test": last}


def least_seconds(candidate: Candidate) -> float:
    """The seconds of the shortest run that is proposed."""
    assert candidate.cost is not None
    return sum(besides_training(candidate).values()) + MIN_TRAINING_STEPS * candidate.cost.seconds_per_step


def max_time(seconds: float) -> str:
    hours, rest = divmod(max(1, int(seconds)), 3600)  # of 0 Lightning would make no step
    return f"trainer.max_time={hours // 24:02d}:{hours % 24:02d}:{rest // 60:02d}:{rest % 60:02d}"


def fit(candidate: Candidate, seconds: float) -> Proposal | None:
    """The run of a candidate that takes so many seconds, or fewer where all its steps fit, unless these are meant for
    a smaller corpus; None where hardly a step fits.

    Training ends by the clock, and the learning rate falls to nothing by then: the number of steps decides only on
    warm-up, validations and dropout, and may be wrong.
    """
    training, cost, overrides = candidate.training, candidate.cost, candidate.overrides
    assert cost is not None
    rest = besides_training(candidate)
    for_training = seconds - sum(rest.values())
    steps, all_steps = int(for_training / cost.seconds_per_step), int(training.trainer.get("max_steps", -1))
    if steps < MIN_TRAINING_STEPS:
        return None
    if 0 < all_steps <= steps and not candidate.stands_in:
        parts = {"training": all_steps * cost.seconds_per_step}
        return Proposal(seconds / 60, (*overrides, max_time(for_training)), all_steps, parts | rest)
    every = math.ceil(steps / VALIDATIONS)
    if VALIDATIONS * cost.seconds_per_validation > MAX_SHARE * seconds:
        every = 2 * steps
    chosen = [
        "trainer.max_steps=-1",
        max_time(for_training),
        f"training.warmup_steps={max(1, min(training.settings.training.warmup_steps, steps // 10))}",
        f"training.validate_every={every}",
    ]
    if steps < ENOUGH_STEPS:
        chosen.append("training.averaging.kind=none")  # an average would hold too much of the beginning
    if steps < FEW_EPOCHS * cost.steps_per_epoch:
        chosen += ["model.dropout=0.1", "training.bpe_dropout=0"]
    return Proposal(seconds / 60, (*overrides, *chosen), steps, {"training": for_training} | rest)


def propose(minutes: float, candidates: list[Candidate]) -> tuple[Candidate, Proposal]:
    """The first candidate that gets enough steps, or else the last, and its run. Raises ValueError where none fits."""
    fitting = [(candidate, fit(candidate, 60 * minutes)) for candidate in candidates]
    possible = [(candidate, proposal) for candidate, proposal in fitting if proposal]
    if not possible:
        needed = min(least_seconds(candidate) for candidate in candidates if candidate.cost) / 60
        raise ValueError(
            f"minutes={minutes:g} is too short: the start, {MIN_TRAINING_STEPS} steps and the test take "
            f"{math.ceil(10 * needed) / 10:.1f} here, now"
        )
    return next((pair for pair in possible if pair[1].steps >= ENOUGH_STEPS), possible[-1])
