"""The sums of the examination of a corpus, and when it advises a cleaned copy."""

from pathlib import Path

import pytest

from tests.factories import tokenizer_settings
from tests.tools.doctor.corpora import PLANTED, TEST, TRAIN, VALIDATION, Pair, planted, write
from transformer.data.config import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.tools.doctor.check_corpus import Examination
from transformer.tools.doctor.examine import _check_all, _unseen


def corpus(folder: Path, train: list[Pair]) -> DataSettings:
    return write(folder, {"train": train, "test": TEST, "validation": VALIDATION})


def examined(*corpora: DataSettings) -> list[Examination]:
    return [Examination(one, lambda lines, name: lines) for one in corpora]


@pytest.mark.parametrize(
    ("train", "dropped", "can_be_cleaned"),
    [
        (TRAIN, 0, False),
        (planted(PLANTED["unprintable"]), 4, True),
        ([(source + " \x07", target) for source, target in TRAIN], 300, False),
        ([(target, source + " \x07" * (i % 2)) for i, (source, target) in enumerate(TRAIN)], 150, False),
    ],
    ids=["clean", "faulty", "nothing left", "swapped"],
)
def test_a_copy_can_be_cleaned_if_some_pairs_have_faults(
    tmp_path: Path, train: list[Pair], dropped: int, can_be_cleaned: bool
) -> None:
    settings = corpus(tmp_path, train)
    found = _check_all(settings, examined(settings), None, None)
    assert (found["dropped"], found["can_be_cleaned"]) == (dropped, can_be_cleaned)


def test_a_copy_of_which_nothing_would_be_left_is_refused(tmp_path: Path) -> None:
    settings = corpus(tmp_path, [(source + " \x07", target) for source, target in TRAIN[:9]])
    with pytest.raises(ValueError, match=r"every pair of train has a fault: nothing would be left$"):
        _check_all(settings, examined(settings), None, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_faults_of_two_pairs_of_languages_are_added_and_none_is_cleaned(tmp_path: Path) -> None:
    corpora = [corpus(tmp_path / name, planted(PLANTED["unprintable"])) for name in "ab"]
    found = _check_all(corpora[0], examined(*corpora), None, None)
    assert (found["dropped"], found["can_be_cleaned"]) == (8, False)


def test_pairs_that_training_leaves_out_as_too_long_are_found(tmp_path: Path) -> None:
    settings = corpus(tmp_path, planted({5: (" ".join([TRAIN[4][0]] * 9), " ".join([TRAIN[4][1]] * 9))}))
    data = TranslationData(settings, tokenizer_settings("word", 400), 1)
    found = _check_all(settings, examined(settings), data, None)
    assert [(one["check"], one["lines"]) for one in found["findings"]] == [("too long", [5])]


def test_line_ends_of_tables_and_spaces_of_cut_splits_cannot_be_checked(tmp_path: Path) -> None:
    settings = corpus(tmp_path, TRAIN[:3])
    assert _unseen(settings, is_cut=False) == []
    assert _unseen(settings, is_cut=True) == ["edge spaces", "carriage returns"]
