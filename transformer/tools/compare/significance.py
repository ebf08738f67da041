"""Is one system better than another, or is it chance? Paired tests over the same sentences, by sacrebleu."""

import copy
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sacrebleu.significance import PairedTest, Result

from transformer.evaluation.metrics import METRICS, bleu, scored_language

# A metric, and paired bootstrap resampling or approximate randomization.
MetricTest = tuple[str, Literal["bs", "ar"]]
# A difference is called significant if chance alone produces it less often than this.
ALPHA = 0.05


@dataclass(frozen=True)
class TestedScore:
    """A system's score by one metric, and how certain it is.

    `interval` is half the width of the 95 % interval from bootstrap resampling. The p-values are for the difference
    from the first system, which has none itself.
    """

    score: float
    interval: float
    p_bootstrap: float | None
    p_randomization: float | None

    @property
    def p(self) -> float | None:
        """The larger of the two: if the tests disagree, the difference does not count as significant."""
        known = [p for p in (self.p_bootstrap, self.p_randomization) if p is not None]
        return max(known, default=None)


@dataclass(frozen=True)
class Difference:
    """A sentence, counted from 0, and its BLEU (0 to 100) by two systems."""

    sentence: int
    first: float
    other: float


def paired_tests(metrics: Iterable[str]) -> list[MetricTest]:
    return [(metric, test) for metric in metrics for test in ("bs", "ar")]  # type: ignore[misc]


def _tested(bootstrap: list[Result], randomization: list[Result], index: int, differing: int) -> TestedScore:
    """The result of the system at this index; its translations of `differing` sentences differ from the first one's."""
    score = bootstrap[index].score
    interval = float(bootstrap[index].ci or 0)
    if index == 0:
        return TestedScore(score, interval, None, None)
    if score == bootstrap[0].score:
        # sacrebleu counts the samples that differ by more than the systems do. If the systems are equal, none does, and
        # the p-value would be the smallest possible.
        return TestedScore(score, interval, 1.0, 1.0)
    # If few sentences differ, this share of the trials swaps all of them or none, which gives exactly the difference of
    # the systems; sacrebleu does not count these trials. No exact test gives a smaller p-value.
    least = min(1.0, 2 * 0.5**differing)
    randomized = randomization[index].p_value
    assert randomized is not None
    return TestedScore(score, interval, bootstrap[index].p_value, max(randomized, least))


def compare(
    systems: dict[str, list[str]],
    references: list[str],
    language: str,
    metrics: list[str],
    resamples: int = 1000,
    trials: int = 10000,
    progress: Callable[[Iterable[MetricTest]], Iterable[MetricTest]] = iter,
) -> dict[str, dict[str, TestedScore]]:
    """Tests every system against the first by each of the `metrics`: {metric: {system: TestedScore}}.

    `systems` has hypotheses by name, one for each of the `references`. Equal calls draw equal samples (sacrebleu's
    seed: the variable SACREBLEU_SEED, else 12345; with 0 or "none" each call draws others). `progress` may show how
    many of the paired tests are done. Raises ValueError for fewer than two systems, or if a system has another number
    of sentences than `references`.
    """
    if len(systems) < 2:
        raise ValueError("a comparison needs two systems or more")
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references) or not references:
            raise ValueError(f"{name} has {len(hypotheses):,} translations for {len(references):,} references")
    language = scored_language(language, references)
    results: dict[MetricTest, list[Result]] = {}
    for metric, test in progress(paired_tests(metrics)):
        samples = resamples if test == "bs" else trials
        built = {metric: METRICS[metric].build(language)}
        _, columns = PairedTest(list(systems.items()), built, [references], test, samples)()
        [results[metric, test]] = [column for heading, column in columns.items() if heading != "System"]  # type: ignore[assignment]
    first = next(iter(systems.values()))
    differing = {name: sum(map(operator.ne, first, hypotheses)) for name, hypotheses in systems.items()}
    return {
        metric: {
            name: _tested(results[metric, "bs"], results[metric, "ar"], index, differing[name])
            for index, name in enumerate(systems)
        }
        for metric in metrics
    }


def largest_differences(
    first: list[str], other: list[str], references: list[str], language: str, count: int
) -> list[Difference]:
    """The `count` sentences whose BLEU differs most, the largest difference first; not those with equal BLEU."""
    sentence_bleu = copy.copy(bleu(scored_language(language, references)))
    # So that a sentence of three words, which has no 4-grams, is scored too.
    sentence_bleu.effective_order = True
    differences = []
    for sentence, (one, two, reference) in enumerate(zip(first, other, references, strict=True)):
        if one != two:
            scores = [sentence_bleu.sentence_score(text, [reference]).score for text in (one, two)]
            differences.append(Difference(sentence, *scores))
    differences = [difference for difference in differences if difference.first != difference.other]
    return sorted(differences, key=lambda difference: -abs(difference.first - difference.other))[:count]
