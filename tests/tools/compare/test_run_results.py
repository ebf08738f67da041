"""The compared runs, their names, and runs that cannot be compared with each other."""

import os
from pathlib import Path
from typing import Any

import pytest

from transformer.config import UsageError
from transformer.tools.compare.run_results import (
    RunResults,
    check_comparable,
    find_runs,
    run_names,
    search_notes,
    shared_metrics,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("HOME", "USERPROFILE"):  # the second one's on Windows
        monkeypatch.setenv(variable, str(tmp_path))
    return tmp_path


def finished(*names: str) -> None:
    for name in names:
        Path(name).mkdir(parents=True)
        (Path(name) / "test.json").touch()


def results(**changes: Any) -> RunResults:
    pairs = [("eins", "one"), ("zwei", "two")]
    given = {"folder": Path("a"), "direction": ("de", "en"), "pairs": pairs, "hypotheses": ["one", "two"]}
    given |= {"signatures": {"bleu": "x", "chrf": "y"}, "search": {}, "is_own": True}
    return RunResults(**(given | changes))


def test_the_trials_of_a_sweep_come_by_their_numbers(home: Path) -> None:
    finished(*(f"sweep/{number}" for number in range(12)))
    (home / "sweep" / "unfinished").mkdir()
    assert [folder.name for folder in find_runs(["sweep"])] == [str(number) for number in range(12)]


def test_runs_come_as_they_are_named_and_each_once(home: Path) -> None:
    finished("a", "b", "sweep/0")
    assert [folder.resolve().name for folder in find_runs(["b", "a", "a/../b", "sweep"])] == ["b", "a", "0"]
    assert find_runs(["~/a", "~/b"]) == [home / "a", home / "b"]


@pytest.mark.parametrize("runs", [[], ["a"], ["a", "a"]])
def test_fewer_than_two_runs_are_not_compared(home: Path, runs: list[str]) -> None:
    finished("a")
    with pytest.raises(UsageError, match="needs two runs"):
        find_runs(runs)


def test_runs_are_called_by_the_parts_of_their_paths_that_differ(home: Path) -> None:
    assert run_names([Path("x/first/0"), home / "x" / "second" / "0"]) == [f"first{os.sep}0", f"second{os.sep}0"]


def test_runs_with_more_or_fewer_references_are_not_compared() -> None:
    fewer = results(folder=Path("b"), pairs=[("eins", "one")])
    for first, other, numbers in ((results(), fewer, "2 and 1"), (fewer, results(), "1 and 2")):
        with pytest.raises(ValueError, match=f"have different numbers of references: {numbers}: compare runs that"):
            check_comparable(first, other)


def test_the_line_of_the_first_other_reference_is_named() -> None:
    other = results(folder=Path("b"), pairs=[("eins", "one"), ("zwei", "too")])
    with pytest.raises(ValueError, match=r"^a and b have different references \(line 2: 'two', 'too'\): compare runs"):
        check_comparable(results(), other)


def test_metrics_that_only_some_runs_have_are_left_out_in_the_order_of_the_first() -> None:
    runs = [results(), results(signatures={"ter": "z", "chrf": "y"})]
    check_comparable(*runs)
    assert shared_metrics(runs) == ["chrf"]


def test_runs_without_a_common_metric_are_not_compared() -> None:
    runs = [results(), results(folder=Path("b"), signatures={"ter": "z"})]
    with pytest.raises(ValueError, match=r"^no metric is common to all runs \(a: bleu, chrf; b: ter\)"):
        shared_metrics(runs)


def test_different_searches_and_those_of_evaluate_are_reported() -> None:
    greedy, beam = ({"method": method, "max_length": 9} for method in ("greedy", "beam"))
    again = {"search": greedy, "is_own": False}
    assert search_notes({"a": results(search=greedy), "b": results(search=greedy)}) == (False, [])
    assert search_notes({"a": results(**again), "b": results(**again)}) == (
        False,
        [f"{name}: translated again by evaluate.py (method=greedy, max_length=9)" for name in ("a", "b")],
    )
    assert search_notes({"a": results(search=beam), "b": results(**again)}) == (
        True,
        ["a: as the run was tested (method=beam)", "b: translated again by evaluate.py (method=greedy)"],
    )
