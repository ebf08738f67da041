"""Is one system better than another, or is it chance? Paired tests over the same sentences, all of them sacrebleu's."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sacrebleu.metrics import CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

from transformer.evaluation.scores import bleu_for

# A metric, and what is done: paired bootstrap resampling or approximate randomization.
Test = tuple[str, Literal["bs", "ar"]]
METRICS = ("bleu", "chrf", "ter")
TESTS: tuple[Test, ...] = tuple((metric, kind) for metric in METRICS for kind in ("bs", "ar"))  # type: ignore[misc]
# A difference that chance alone makes less often than this is taken for one.
LEVEL = 0.05


@dataclass(frozen=True)
class Tested:
    """A system's score by one metric, and how sure it is.

    `interval` is half the width of the 95 % interval that bootstrap resampling gives. The p-values are those of the
    difference from the first system, which has none itself.
    """

    score: float
    interval: float
    p_bootstrap: float | None
    p_randomization: float | None

    @property
    def p(self) -> float | None:
        """The larger of the two: where the tests disagree, the doubt counts."""
        known = [p for p in (self.p_bootstrap, self.p_randomization) if p is not None]
        return max(known, default=None)


@dataclass(frozen=True)
class Difference:
    """A sentence, counted from 0, and its BLEU (0 to 100) by two systems."""

    sentence: int
    first: float
    other: float


def compare(
    systems: dict[str, list[str]],
    references: list[str],
    language: str,
    resamples: int = 1000,
    trials: int = 10000,
    progress: Callable[[Iterable[Test]], Iterable[Test]] = iter,
) -> dict[str, dict[str, Tested]]:
    """Tests every system against the first by BLEU, chrF and TER: {metric: {system: Tested}}.

    `systems` holds hypotheses by name, one for each of the `references`. Equal calls draw equal samples (sacrebleu's
    seed: the variable SACREBLEU_SEED, else 12345). `progress` may show how many of TESTS are done. Raises ValueError
    for fewer than two systems and for other numbers of sentences.
    """
    if len(systems) < 2:
        raise ValueError("a comparison needs two systems or more")
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references) or not references:
            raise ValueError(f"{name} has {len(hypotheses):,} translations for {len(references):,} references")
    metrics: dict[str, Metric] = {"bleu": bleu_for(language), "chrf": CHRF(), "ter": TER()}
    found: dict[Test, list[Result]] = {}
    for metric, kind in progress(TESTS):
        samples = resamples if kind == "bs" else trials
        _, columns = PairedTest(list(systems.items()), {metric: metrics[metric]}, [references], kind, samples)()
        [results] = [column for heading, column in columns.items() if heading != "System"]
        found[metric, kind] = results  # type: ignore[assignment]
    return {
        metric: {name: _tested(found[metric, "bs"], found[metric, "ar"], place) for place, name in enumerate(systems)}
        for metric in METRICS
    }


def _tested(bootstrap: list[Result], randomization: list[Result], place: int) -> Tested:
    score = bootstrap[place].score
    interval = float(bootstrap[place].ci or 0)
    if place == 0:
        return Tested(score, interval, None, None)
    if score == bootstrap[0].score:
        # sacrebleu counts the samples that differ by more than the systems do. Of systems that say the same none does,
        # and its p-value would be the smallest there is.
        return Tested(score, interval, 1.0, 1.0)
    return Tested(score, interval, bootstrap[place].p_value, randomization[place].p_value)


def largest_differences(
    first: list[str], other: list[str], references: list[str], language: str, count: int
) -> list[Difference]:
    """The `count` sentences whose BLEU differs most, the largest difference first; none where it is the same."""
    bleu = copy.copy(bleu_for(language))
    # A sentence of three words has no 4-grams to miss.
    bleu.effective_order = True
    differences = []
    for sentence, (one, two, reference) in enumerate(zip(first, other, references, strict=True)):
        if one != two:
            scores = [bleu.sentence_score(text, [reference]).score for text in (one, two)]
            differences.append(Difference(sentence, *scores))
    differences = [found for found in differences if found.first != found.other]
    return sorted(differences, key=lambda found: -abs(found.first - found.other))[:count]
