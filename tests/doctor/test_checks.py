"""Every check against a corpus with planted faults: those lines are found, and no others."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.corpora import Pair, clean, write
from transformer.doctor.checks import CHECKS
from transformer.doctor.examination import Dropped, Examination, Finding

TRAIN, TEST, VALIDATION = clean(300, seed=1), clean(20, seed=2), clean(20, seed=3)


def said(source: str) -> str:
    """The same words, written otherwise."""
    return source.upper().replace(" ", ", ") + "!?"


def moved(source: str) -> str:
    """A sentence that holds nearly all of another."""
    return "Und " + source.removesuffix(".").rpartition(" ")[0] + " auch heute noch."


# The pairs to put into train by line (from 1), and the lines on which the check then finds its fault.
S, T = (lambda line: TRAIN[line - 1][0]), (lambda line: TRAIN[line - 1][1])
PLANTED: dict[str, dict[int, Pair]] = {
    "empty": {10: ("", T(10)), 20: (S(20), "  "), 30: ("", "")},
    "duplicate": {50: TRAIN[2], 60: TRAIN[2], 72: (f" {S(71)}", T(71))},
    "in a held-out split": {7: (TEST[4][0], T(7)), 9: (VALIDATION[0][0], T(9))},
    "nearly held out": {8: (said(TEST[5][0]), T(8)), 11: (moved(TEST[6][0]), T(11))},
    "copied source": {12: (S(12), S(12)), 13: (T(13), T(13).upper() + "!")},
    "wrong language": {14: (T(14), S(14)), 15: (T(215), T(15)), 16: (S(16), S(216))},
    "wrong script": {17: ("Привет, мир! Как у вас дела сегодня вечером? Хорошо, спасибо, а у вас?", T(17))},
    "length ratio": {18: ("Ja, doch.", T(18)), 19: (S(19), "Oh!")},
    "unprintable": {21: (S(21) + "\x07", T(21)), 22: (S(22), T(22).replace(" ", " \ufffd", 1))},
    "invisible": {23: (S(23).replace(" ", " \u200b", 1), T(23)), 24: (S(24), T(24)[:5] + "\u00ad" + T(24)[5:])},
    "edge spaces": {25: (" " + S(25), T(25)), 26: (S(26), T(26) + "\u3000"), 27: (S(27), T(27) + " \r")},
    "carriage returns": {28: (S(28) + "\r", T(28)), 29: (S(29), T(29) + "\r")},
    "decomposed": {31: (S(31) + unicodedata.normalize("NFD", " schön"), T(31))},
    "mixed quotes": {32: (f"„{S(32)}“", T(32)), 33: (S(33), T(33) + " It’s.")},
    "several translations": {34: (S(34), T(34)), 35: (S(34), T(35))},
}  # fmt: skip
# What the planted lines make of others: quotes are mixed when more lines have the other style.
USUAL: dict[str, dict[int, Pair]] = {
    "mixed quotes": {line: (f'"{S(line)}"', T(line) + " It's.") for line in (41, 42, 43)},
}


def examine(folder: Path, train: list[Pair], too_long: set[int] | None = None) -> tuple[list[Finding], list[Dropped]]:
    settings = write(folder, {"train": train, "test": TEST, "validation": VALIDATION})
    dropped: list[Dropped] = []
    kept: list[int] = []
    findings = Examination(settings, lambda lines, name: lines).run(
        too_long or set(), lambda line: kept.append(line.number), dropped.append
    )
    assert sorted([*kept, *(found.line.number for found in dropped)]) == list(range(1, len(train) + 1))
    return [finding for finding in findings if finding.pairs], dropped


def planted(*faults: dict[int, Pair]) -> list[Pair]:
    lines = dict(enumerate(TRAIN, 1))
    for fault in faults:
        lines |= fault
    return list(lines.values())


def test_a_clean_corpus_has_no_finding(tmp_path: Path) -> None:
    assert examine(tmp_path, TRAIN) == ([], [])


@pytest.mark.parametrize("name", PLANTED)
def test_a_check_finds_the_planted_lines_and_no_others(tmp_path: Path, name: str) -> None:
    findings, dropped = examine(tmp_path, planted(USUAL.get(name, {}), PLANTED[name]))
    found = {finding.check.name: finding for finding in findings}
    assert found[name].lines == sorted(PLANTED[name])
    assert found[name].pairs == len(PLANTED[name])
    # Other checks may see those lines too (a repeated pair with an edge space), but they see no others.
    for other in findings:
        assert set(other.lines) <= PLANTED[name].keys(), other.check.name
    drops = next(check.drops for check in CHECKS if check.name == name)
    assert {one.line.number for one in dropped} == (set(PLANTED[name]) if drops else set())
    assert all(one.reasons == [name] for one in dropped)


def test_every_check_is_tried() -> None:
    assert {check.name for check in CHECKS} == {*PLANTED, "too long"}


def test_what_training_finds_too_long_is_named(tmp_path: Path) -> None:
    [finding], dropped = examine(tmp_path, TRAIN, {4, 9})
    assert (finding.check.name, finding.lines) == ("too long", [4, 9])
    assert [one.line.number for one in dropped] == [4, 9]


def test_sides_are_told_apart(tmp_path: Path) -> None:
    for name, sides in (("edge spaces", [1, 2]), ("wrong language", [2, 2]), ("mixed quotes", [1, 1])):
        findings, _ = examine(tmp_path, planted(USUAL.get(name, {}), PLANTED[name]))
        assert next(finding for finding in findings if finding.check.name == name).sides == sides


def test_faults_of_held_out_splits_are_told_but_nothing_is_dropped_for_them(tmp_path: Path) -> None:
    test = [*TEST, TEST[0], ("", TEST[1][1])]
    settings = write(tmp_path, {"train": TRAIN, "test": test, "validation": VALIDATION})
    dropped: list[Dropped] = []
    keep: Callable[[object], None] = lambda line: None  # noqa: E731
    findings = Examination(settings, lambda lines, name: lines).run(set(), keep, dropped.append)
    found = {(finding.split, finding.check.name): finding.lines for finding in findings if finding.pairs}
    assert found == {("test", "empty"): [22], ("test", "duplicate"): [21]}
    assert dropped == []


def test_a_leak_names_the_sentence_that_it_repeats(tmp_path: Path) -> None:
    _, dropped = examine(tmp_path, planted(PLANTED["in a held-out split"], PLANTED["nearly held out"]))
    leaks = {one.line.number: (one.leak.split, one.leak.number, one.leak.exact) for one in dropped if one.leak}
    assert leaks == {7: ("test", 5, True), 9: ("validation", 1, True), 8: ("test", 6, False), 11: ("test", 7, False)}


def test_text_without_spaces_is_compared_by_characters(tmp_path: Path) -> None:
    chinese = "您可以在对话框中组合多个排序条件"
    settings = write(tmp_path, {"train": TRAIN, "test": [(chinese, "You can.")], "validation": VALIDATION})
    held_out = Examination(settings, lambda lines, name: lines).held_out
    for text, leaks in (
        (chinese + "。", True),
        (f"但是{chinese}等等", True),
        (chinese[:8] + "其他的事情完全不同", False),
    ):
        leak = held_out.leak(text)
        assert (leak is not None) == leaks
