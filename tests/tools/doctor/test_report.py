"""The doctor's report has the right numbers at the right places, and its next command can be typed."""

from pathlib import Path
from typing import Any

import pytest

from tests.factories import data_settings, tokenizer_settings
from tests.tools.doctor.corpora import TEST, TRAIN, VALIDATION, write
from transformer.data.config import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.tools.doctor.check_corpus import Examination
from transformer.tools.doctor.checks import CHECKS
from transformer.tools.doctor.report import findings_as_dicts, next_command, show, show_next, unknown_shares


def files(**changes: Any) -> DataSettings:
    return data_settings(train="x", validation="y", test="z", source_language="de", target_language="en", **changes)


def printed(capsys: pytest.CaptureFixture[str], **changes: Any) -> list[str]:
    """The lines of a report without findings, with these changes and single spaces."""
    report = {
        "corpus": {"name": "files", "directions": ["de-en"], "pairs": {"train": 1000, "validation": 10, "test": 20}},
        **{"findings": [], "languages": [], "swapped": False, "byte_order_marks": [], "dropped": 0, "cut": []},
        **{"unseen": [], "advice": "recommended: this", "writing": []},
        "tokenizer": {"kind": "bpe", "size": 2000, "unknown": {"test": {"de": 0.0, "en": 0.0}}},
        "run": None,
    }
    show(report | changes)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def finding(**changes: Any) -> dict[str, Any]:
    return {
        **{"check": "unprintable", "split": "train", "pairs": 7, "share": 0.007, "sides": {"de": 7, "en": 0}},
        **{"lines": [1, 2, 3, 5, 8], "dropped": True, "means": "damaged text"},
    } | changes


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "✗ unprintable train 7 0.7% de 7: 1, 2, 3, 5, 8, …"),
        ({"dropped": False, "split": "test"}, "unprintable test 7 0.7% de 7: 1, 2, 3, 5, 8, …"),
        ({"pairs": 2, "lines": [3, 9], "sides": {"de": 2, "en": 2}}, "✗ unprintable train 2 0.7% 3, 9"),
        ({"pairs": 2, "lines": [3, 9], "sides": {"de": 1, "en": 2}}, "✗ unprintable train 2 0.7% de 1, en 2: 3, 9"),
        ({"share": 0.002}, "✗ unprintable train 7 0.2% de 7: 1, 2, 3, 5, 8, …"),
        ({"share": 0.0004}, "✗ unprintable train 7 0.04% de 7: 1, 2, 3, 5, 8, …"),
        ({"share": 0.00002}, "✗ unprintable train 7 <0.01% de 7: 1, 2, 3, 5, 8, …"),
    ],
)
def test_a_finding_has_its_share_its_sides_and_its_first_lines(
    changes: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, findings=[finding(**changes)])
    assert line in lines
    assert "unprintable: damaged text" in lines


def test_checks_without_findings_are_listed_but_not_skipped_checks(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, findings=[finding()], unseen=["edge spaces"])
    [clean] = [line.removeprefix("nothing found: ") for line in lines if line.startswith("nothing found: ")]
    assert {*clean.split(", ")} == {check.name for check in CHECKS} - {"unprintable", "edge spaces"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cut": ["validation: 10 pairs of train"]}, "validation: 10 pairs of train"),
        ({"languages": ["data.source_language=de, but"]}, "✗ data.source_language=de, but"),
        ({"byte_order_marks": ["a.de"]}, "a.de begins with a byte order mark: removed on reading"),
        ({"dropped": 7}, "✗ 7 of 1,000 training pairs have such a fault"),
        ({"dropped": 1000}, "a cleaned copy would have no pair: correct the faults above in the source of the corpus"),
        ({"writing": ["test: 90 %"]}, "test: 90 %"),
        ({"tokenizer": {"kind": "bpe", "error": "too few"}}, "this corpus cannot be used for training: too few"),
        ({}, "unknown tokens (bpe, 2,000 pieces): none"),
    ],
)
def test_the_facts_about_a_corpus_are_printed(
    changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in printed(capsys, **changes)


def test_unknown_tokens_are_reported_by_split_and_language(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {"train": {"de": 0.0, "en": 0.0}, "test": {"de": 0.0, "en": 0.0123}}
    lines = printed(capsys, tokenizer={"kind": "word", "size": 300, "unknown": unknown})
    assert "unknown tokens (word, 300 pieces): test en 1.2%" in lines


def test_the_share_of_unknown_tokens_is_that_of_each_side(tmp_path: Path) -> None:
    test = [("", " ".join(f"{word} qwxyz" for word in TRAIN[0][1].split()))]
    data = TranslationData(
        write(tmp_path, {"train": TRAIN, "test": test, "validation": VALIDATION}), tokenizer_settings("word", 2000), 1
    )
    assert unknown_shares(data)["train"] == {"de": 0.0, "en": 0.0}
    assert unknown_shares(data)["test"] == {"de": 0.0, "en": 14 / 29}  # the full stop is known


def test_the_training_pairs_of_all_directions_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = {"train": 100, "test": 3, "train.en-fr": 50, "test.en-fr": 3}
    lines = printed(capsys, corpus={"name": "files", "directions": ["de-en", "en-fr"], "pairs": pairs}, dropped=7)
    assert lines[0] == "files: de → en, en → fr, pairs: train 100, test 3, train.en-fr 50, test.en-fr 3"
    assert "✗ 7 of 150 training pairs have such a fault" in lines


@pytest.mark.parametrize(("epochs", "said"), [(0.21, "0.2"), (4.96, "5"), (17.006, "17"), (1234.5678, "1,234.6")])
def test_the_steps_of_a_run_and_their_epochs_are_said(
    epochs: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, run={"steps": 1500, "epochs": epochs})
    assert f"a run: 1,500 steps, about {said} epochs" in lines


def test_a_run_without_a_number_of_steps_has_no_printed_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [line for line in printed(capsys) if line.startswith("a run: ")]


def test_the_share_of_a_finding_is_of_its_split_and_only_training_pairs_are_dropped(tmp_path: Path) -> None:
    train, test = [*TRAIN[:39], ("", "y")], [*TEST[:9], ("", "x")]
    settings = write(tmp_path, {"train": train, "test": test, "validation": VALIDATION})
    examination = Examination(settings, lambda lines, name: lines)
    examination.run(set(), lambda line: None, lambda dropped: None)
    found = {one["split"]: (one["share"], one["dropped"], one["sides"]) for one in findings_as_dicts(examination)}
    assert found == {"train": (1 / 40, True, {"de": 1, "en": 0}), "test": (1 / 10, False, {"de": 1, "en": 0})}


WORDS = ["my.tsv", "seed=5", "--target", "en"]
SETTINGS = ["data=files", "data.pairs=my.tsv", "data.target_language=en", "seed=5", "+trainer.max_steps=9"]


def test_the_next_command_has_what_was_typed() -> None:
    command = next_command(WORDS, SETTINGS, files(), None, clean=False)
    assert command == " ".join(["translator train", *SETTINGS])


def test_a_corpus_with_faults_is_first_to_be_cleaned() -> None:
    command = next_command(WORDS, SETTINGS, files(), None, clean=True)
    assert command == "translator doctor my.tsv seed=5 --target en --fix CLEANED"


def test_a_cleaned_copy_is_named_in_place_of_the_corpus() -> None:
    corpus = files(extra_tests={"news": "n"}, license="MIT")
    of_corpus = ["data.license=MIT", "+data.extra_tests.news=n", "+data.split=[0.1,0.1]"]
    other = ["data.max_length=9", "data.cache=k", "init_from=run"]
    command = next_command(WORDS, [*SETTINGS, *of_corpus, *other], corpus, Path("c"), clean=True)
    splits = " ".join(f"data.{split}={Path('c', split)}" for split in ("train", "validation", "test"))
    assert command == (
        f"translator train data=files {splits} data.source_language=de data.target_language=en "
        f"+data.extra_tests.news={Path('c', 'news')} seed=5 +trainer.max_steps=9 data.license=MIT "
        f"{' '.join(other)}"
    )


@pytest.mark.parametrize(
    ("swapped", "error", "clean", "said"),
    [
        (True, False, True, "Next: correct --source and --target, or data.columns (✗ above)"),
        (False, True, False, None),
        (False, True, True, "  translator doctor seed=5 --fix CLEANED"),
        (False, False, False, "  translator train seed=5"),
    ],
)
def test_the_advice_fits_the_findings(
    swapped: bool, error: bool, clean: bool, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = {"error": "too few"} if error else {}
    report = {"swapped": swapped, "can_be_cleaned": clean, "tokenizer": tokenizer}
    show_next(report, ["seed=5"], ["seed=5"], files(), None)
    assert capsys.readouterr().out.splitlines()[-1:] == ([said] if said else [])
