"""A comparison gives the numbers of sacrebleu's own command line, and no difference if there is none."""

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import sacrebleu

from tests.cases import others_long
from transformer.tools.compare.significance import (
    ALPHA,
    MetricTest,
    compare,
    largest_differences,
    paired_tests,
)

DRAW = random.Random(5)
WORDS = "das Haus ist klein . Hund , läuft schnell 3,5 und".split()
REFERENCES = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(4, 12))) for _ in range(120)]


def noisy(share: float, seed: int) -> list[str]:
    """The references with a share of their words drawn again."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else word for word in reference.split())
        for reference in REFERENCES
    ]


METRICS = ["bleu", "chrf", "ter"]
FEW = {"metrics": METRICS, "resamples": 200, "trials": 300}


@pytest.mark.parametrize("kind", others_long(["bs", "ar"]))
def test_every_number_is_that_of_sacrebleus_command_line(kind: str, tmp_path: Path) -> None:
    systems = {"first": noisy(0.2, 1), "alike": noisy(0.21, 2), "worse": noisy(0.4, 3)}
    for name, lines in {"reference": REFERENCES, **systems}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    paired = {"bs": ["--paired-bs", "--paired-bs-n", "200"], "ar": ["--paired-ar", "--paired-ar-n", "300"]}[kind]
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", *systems, "-m", "bleu", "chrf", "ter", *paired]
    done = subprocess.run(
        [*command, "-w", "6", "-f", "latex"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    # A row a system, a column a metric: score (mean ± interval) (p = …).
    rows = [line for line in done.stdout.splitlines() if line.endswith(r"\\") and "System" not in line]
    ours = compare(systems, REFERENCES, "de", **FEW)
    assert len(rows) == 3
    for system, row in zip(systems, rows, strict=True):
        for metric, cell in zip(METRICS, row.split("&")[1:], strict=True):
            score, *rest = (float(number) for number in re.findall(r"[0-9.]+", cell))
            found = ours[metric][system]
            assert score == pytest.approx(found.score, abs=1e-6)
            if kind == "bs":
                assert rest[1] == pytest.approx(found.interval, abs=1e-5)
            p = found.p_bootstrap if kind == "bs" else found.p_randomization
            if p is None:
                assert "p =" not in cell
            else:
                assert rest[-1] == pytest.approx(p, abs=1e-4)


def test_randomisation_comes_close_to_trying_every_exchange() -> None:
    first, other, references = (lines[:8] for lines in (noisy(0.3, 1), noisy(0.4, 2), REFERENCES))

    def difference(exchanged: tuple[bool, ...]) -> float:
        pairs = [(b, a) if swap else (a, b) for a, b, swap in zip(first, other, exchanged, strict=True)]
        one, two = (sacrebleu.corpus_bleu(list(side), [references]).score for side in zip(*pairs, strict=True))
        return abs(one - two)

    seen = difference((False,) * 8)
    every = [difference(exchanged) for exchanged in itertools.product((False, True), repeat=8)]
    more = sum(value > seen + 1e-9 for value in every) / len(every)
    p = compare({"a": first, "b": other}, references, "de", ["bleu"], resamples=40, trials=3000)["bleu"][
        "b"
    ].p_randomization
    assert p == pytest.approx(more, abs=0.03)
    assert more > 0.01, "too easy a case to tell anything"


def test_a_clearly_worse_system_is_significant_and_an_equal_one_is_not() -> None:
    systems = {"first": noisy(0.2, 1), "alike": noisy(0.2, 2), "worse": noisy(0.5, 3)}
    bleu = compare(systems, REFERENCES, "de", **FEW)["bleu"]
    assert bleu["first"].p is None
    assert bleu["worse"].p < ALPHA < bleu["alike"].p
    assert bleu["worse"].p == max(bleu["worse"].p_bootstrap, bleu["worse"].p_randomization)


def test_systems_with_the_same_output_are_not_significant() -> None:
    lines = noisy(0.2, 1)
    found = compare({"first": lines, "same": list(lines)}, REFERENCES, "de", **FEW)
    assert [found[metric]["same"].p for metric in METRICS] == [1.0, 1.0, 1.0]
    # TER ignores case, so by TER alone nothing differs.
    lower = compare({"first": lines, "lower": [line.lower() for line in lines]}, REFERENCES, "de", **FEW)
    assert lower["ter"]["lower"].p == 1.0
    assert lower["bleu"]["lower"].p < ALPHA


@pytest.mark.parametrize("differing", [1, 3, 5, 12])
def test_few_different_sentences_are_not_significant(differing: int) -> None:
    lines = noisy(0.5, 1)
    better = [*REFERENCES[:differing], *lines[differing:]]
    count = sum(one != other for one, other in zip(lines, better, strict=True))
    found = compare({"first": lines, "better": better}, REFERENCES, "de", ["bleu"], resamples=100, trials=500)
    p = found["bleu"]["better"].p_randomization
    # Half of all exchanges (those that change all sentences or none) are as extreme: the share is exact.
    assert p is not None
    assert p >= min(1.0, 2 / 2**count)
    assert (found["bleu"]["better"].p < ALPHA) == (count > 5)


def test_equal_calls_give_equal_numbers_and_progress_sees_every_test() -> None:
    systems = {"first": noisy(0.2, 1), "other": noisy(0.3, 2)}
    seen: list[MetricTest] = []

    def progress(tests: Iterable[MetricTest]) -> Iterator[MetricTest]:
        for test in tests:
            seen.append(test)
            yield test

    assert compare(systems, REFERENCES, "de", **FEW) == compare(systems, REFERENCES, "de", **FEW, progress=progress)
    assert seen == paired_tests(METRICS)


def test_the_sentences_that_differ_most_come_first() -> None:
    first, other = list(REFERENCES), list(REFERENCES)
    other[7] = "Hund"
    first[30] = " ".join(first[30].split()[:-1])
    other[50] = other[50] + " ."
    found = largest_differences(first, other, REFERENCES, "de", 5)
    assert found[0].sentence == 7
    assert {difference.sentence for difference in found} == {7, 30, 50}
    for difference in found:
        own = sacrebleu.sentence_bleu(other[difference.sentence], [REFERENCES[difference.sentence]]).score
        assert difference.other == own
    assert largest_differences(first, other, REFERENCES, "de", 1) == found[:1]


def test_comparisons_that_are_impossible_are_refused() -> None:
    with pytest.raises(ValueError, match="two systems or more"):
        compare({"alone": REFERENCES}, REFERENCES, "de", METRICS)
    with pytest.raises(ValueError, match="short has 119 translations for 120 references"):
        compare({"first": REFERENCES, "short": REFERENCES[1:]}, REFERENCES, "de", METRICS)
