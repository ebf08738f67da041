"""Every check on a corpus with added faults: it finds those lines and no others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.doctor.corpora import NO_FAULTS, PLANTED, TEST, TRAIN, USUAL, VALIDATION, Pair, S, T, planted, write
from transformer.data.leakage import HeldOut, Leak
from transformer.tools.doctor.check_corpus import Dropped, Examination, Finding
from transformer.tools.doctor.checks import CHECKS


def examine(folder: Path, train: list[Pair], too_long: set[int] | None = None) -> tuple[list[Finding], list[Dropped]]:
    settings = write(folder, {"train": train, "test": TEST, "validation": VALIDATION})
    dropped: list[Dropped] = []
    kept: list[int] = []
    findings = Examination(settings, lambda lines, name: lines).run(
        too_long or set(), lambda line: kept.append(line.number), dropped.append
    )
    assert sorted([*kept, *(found.line.number for found in dropped)]) == list(range(1, len(train) + 1))
    return [finding for finding in findings if finding.pairs], dropped


def test_a_clean_corpus_has_no_finding(tmp_path: Path) -> None:
    assert examine(tmp_path, TRAIN) == ([], [])


@pytest.mark.parametrize("name", PLANTED)
def test_a_check_finds_the_planted_lines_and_no_others(tmp_path: Path, name: str) -> None:
    findings, dropped = examine(tmp_path, planted(USUAL.get(name, {}), PLANTED[name]))
    found = {finding.check.name: finding for finding in findings}
    assert found[name].lines == sorted(PLANTED[name])
    assert found[name].pairs == len(PLANTED[name])
    # Other checks may find those lines too (a repeated pair with an edge space), but no other lines.
    for other in findings:
        assert set(other.lines) <= PLANTED[name].keys(), other.check.name
    drops = next(check.drops for check in CHECKS if check.name == name)
    assert {one.line.number for one in dropped} == (set(PLANTED[name]) if drops else set())
    assert all(one.reasons == [name] for one in dropped)


def test_lines_that_only_look_faulty_are_not_reported(tmp_path: Path) -> None:
    assert examine(tmp_path, planted(dict(enumerate(NO_FAULTS.values(), 101)))) == ([], [])


def test_every_check_is_tried() -> None:
    assert {check.name for check in CHECKS} == {*PLANTED, "too long"}


def test_some_faults_drop_a_pair_and_others_are_reported() -> None:
    reported = {"invisible", "edge spaces", "carriage returns", "decomposed", "mixed quotes", "several translations"}
    assert {check.name for check in CHECKS if not check.drops} == reported


def test_some_faults_count_only_in_training() -> None:
    of_training = {"too long", "in a held-out split", "nearly held out", "several translations"}
    assert {check.name for check in CHECKS if check.train_only} == of_training


def test_a_line_end_of_windows_is_no_edge_space(tmp_path: Path) -> None:
    findings, _ = examine(tmp_path, planted(PLANTED["carriage returns"]))
    assert [finding.check.name for finding in findings] == ["carriage returns"]


def test_pairs_without_text_are_empty_and_no_duplicates(tmp_path: Path) -> None:
    findings, _ = examine(tmp_path, planted({10: ("", ""), 20: ("", "")}))
    assert [finding.check.name for finding in findings] == ["empty"]


def test_the_first_five_lines_are_listed_and_the_first_faulty_side_is_shown(tmp_path: Path) -> None:
    [finding], _ = examine(tmp_path, planted({line: (S(line), T(line) + "\x07") for line in (9, 3, 5, 7, 2, 8, 6)}))
    assert (finding.pairs, finding.lines) == (7, [2, 3, 5, 6, 7])
    assert finding.example == T(2) + "\x07"


def test_each_split_may_have_a_style_of_quotes_of_its_own(tmp_path: Path) -> None:
    test = [(f"„{source}“", target) for source, target in TEST]
    settings = write(tmp_path, {"train": planted(USUAL["mixed quotes"]), "test": test, "validation": VALIDATION})
    findings = Examination(settings, lambda lines, name: lines).run(set(), lambda line: None, lambda dropped: None)
    assert not [finding for finding in findings if finding.pairs]


def test_held_out_sentences_of_other_directions_are_held_out_too(tmp_path: Path) -> None:
    settings = write(tmp_path / "own", {"train": TRAIN[:40], "test": TEST, "validation": VALIDATION})
    other = write(tmp_path / "other", {"train": TRAIN[:40], "test": [(S(3), "x"), ("y", T(7))], "validation": TEST})
    reverse = replace(other, source_language="en", target_language="de")
    findings = Examination(settings, lambda lines, name: lines, [reverse]).run(set(), lambda line: None, lambda _: None)
    leaked = next(finding for finding in findings if finding.check.name == "in a held-out split")
    assert (leaked.lines, leaked.sides) == ([3, 7], [1, 1])


def test_a_byte_order_mark_is_found_in_every_split(tmp_path: Path) -> None:
    settings = write(tmp_path, {"train": TRAIN[:9], "test": TEST, "validation": VALIDATION})
    marked = [tmp_path / name for name in ("train.de", "test.en")]
    for path in marked:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert sorted(Examination(settings, lambda lines, name: lines).files_with_mark) == sorted(marked)


@pytest.mark.parametrize(
    ("words", "held_out", "is_leak"),
    [(12, 11, True), (12, 10, False), (7, 7, True), (6, 6, False)],
)
def test_most_of_a_held_out_sentence_is_a_leak_if_it_has_seven_words(words: int, held_out: int, is_leak: bool) -> None:
    index, sentence = HeldOut(), [f"word{letter}" for letter in "abcdefghijkl"[:words]]
    index.add("test", 1, " ".join(sentence))
    leak = index.leak(f"Before {' '.join(sentence[:held_out])} after.")
    assert leak == (Leak("test", 1, exact=False) if is_leak else None)


def test_what_training_finds_too_long_is_named(tmp_path: Path) -> None:
    [finding], dropped = examine(tmp_path, TRAIN, {4, 9})
    assert (finding.check.name, finding.lines) == ("too long", [4, 9])
    assert [one.line.number for one in dropped] == [4, 9]


def test_the_two_sides_are_distinguished(tmp_path: Path) -> None:
    for name, sides in (("edge spaces", [1, 2]), ("wrong language", [2, 2]), ("mixed quotes", [1, 1])):
        findings, _ = examine(tmp_path, planted(USUAL.get(name, {}), PLANTED[name]))
        assert next(finding for finding in findings if finding.check.name == name).sides == sides


def test_faults_of_held_out_splits_are_reported_but_drop_nothing(tmp_path: Path) -> None:
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
    sources = {7: ("test", 5, True), 9: ("validation", 1, True), 8: ("test", 6, False), 11: ("test", 7, False)}
    assert leaks == sources | {36: ("test", 9, True), 37: ("test", 10, False)}


def test_text_without_spaces_is_compared_by_characters(tmp_path: Path) -> None:
    chinese = "您可以在对话框中组合多个排序条件"
    settings = write(tmp_path, {"train": TRAIN, "test": [(chinese, "You can.")], "validation": VALIDATION})
    held_out, _ = Examination(settings, lambda lines, name: lines).held_out
    for text, leaks in (
        (chinese + "。", True),
        (f"但是{chinese}等等", True),
        (chinese[:8] + "其他的事情完全不同", False),
    ):
        leak = held_out.leak(text)
        assert (leak is not None) == leaks


def test_a_text_without_words_is_no_leak() -> None:
    index = HeldOut()
    for number, text in enumerate(("", "…", "?!"), 1):
        index.add("test", number, text)
    assert [index.leak(text) for text in ("…", "", "?!")] == [None] * 3


def test_names_are_no_foreign_script_in_a_short_sentence(tmp_path: Path) -> None:
    chinese = [(f"You can open dialog {i}.", f"您可以在对话框中打开{i}") for i in range(400)]
    named = [
        *(("Tom swims.", "Tom游泳。"), ("I use Twitter.", "我用Twitter。"), ("My name is Tom.", "我叫Tom。")),
        *(("Tom bought Mary some juice.", "Tom帮Mary买了点果汁。"), ("In PowerPoint", "PowerPoint中")),
    ]
    foreign = [("We were late.", "Мы опоздали на поезд."), ("It is raining.", "我 all day it pours down")]
    findings, _ = examine(tmp_path, [*chinese, *named, *foreign])
    [found] = [one for one in findings if (one.check.name, one.split) == ("wrong script", "train")]
    assert found.lines == [406, 407]
