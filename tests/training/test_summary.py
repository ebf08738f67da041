"""What stands before training: which sentences are left out or cut, unknown or few, and the size of the model."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.corpora import settings, write
from tests.factories import tokenizer_settings
from tests.training.small import module_for, numbers_data
from transformer.data.datamodule import TranslationData
from transformer.training.summary import show_run


def shown(data: TranslationData, capsys: pytest.CaptureFixture[str], init_from: str | None = None) -> list[str]:
    show_run(data, module_for(data).translator, "cpu: 1 thread", 1, init_from)
    return capsys.readouterr().err.splitlines()


@pytest.fixture
def mixed(tmp_path: Path) -> TranslationData:
    """Of 101 pairs, the same in every split, the second is too long and the third has an empty side."""
    for language, words in (("de", "ein Hund"), ("en", "a dog")):
        lines = [words] * 101
        lines[1], lines[2] = " ".join([words] * 9), words if language == "de" else ""
        write(tmp_path, f"x.{language}", lines)
    return TranslationData(settings(tmp_path), tokenizer_settings("word", 100), seed=1)


def test_what_is_too_long_or_empty_is_left_out_of_training_and_cut_elsewhere(
    mixed: TranslationData, capsys: pytest.CaptureFixture[str]
) -> None:
    said = shown(mixed, capsys)
    assert "train: 1 over data.max_length=10 tokens, left out: pairs 2" in said
    assert "train: 1 empty on a side, left out: pairs 3" in said
    assert "test: 1 over data.max_length=10 tokens, cut: pairs 2" in said
    assert "test: 1 empty on a side: pairs 3" in said


def test_a_hundred_sentences_are_not_few_and_fewer_are(
    mixed: TranslationData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any("are few" in line for line in shown(mixed, capsys))
    for language, word in (("de", "Hund"), ("en", "dog")):
        write(tmp_path, f"few.{language}", [word] * 99)
    few = settings(tmp_path, test=str(tmp_path / "few"))
    said = shown(TranslationData(few, tokenizer_settings("word", 100), seed=1), capsys)
    assert [line.partition(" sentences")[0] for line in said if "are few" in line] == ["test: 99"]


def test_words_that_the_vocabulary_lacks_are_told_by_split_and_language(
    mixed: TranslationData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any("unknown to the vocabulary" in line for line in shown(mixed, capsys))
    write(tmp_path, "other.de", ["ein Hund"] * 100)
    write(tmp_path, "other.en", ["a cat"] * 100)
    other = settings(tmp_path, test=str(tmp_path / "other"))
    data = TranslationData(other, tokenizer_settings("word", 100), seed=1)
    said = [line for line in shown(data, capsys, init_from="first") if "unknown to the vocabulary" in line]
    assert len(said) == 1
    assert said[0].startswith("test: ")
    assert said[0].endswith("of the tokens in en are unknown to the vocabulary of first")


def test_the_parts_of_a_model_have_all_its_parameters(
    mixed: TranslationData, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = (line for line in shown(mixed, capsys) if " parameters: " in line)
    total, _, parts = line.replace(",", "").partition(" parameters: encoder ")
    numbers = [int(word) for word in parts.split() if word.isdigit()]
    assert len(numbers) == 3
    assert sum(numbers) == int(total)


def test_it_is_said_whose_weights_a_run_begins_with(mixed: TranslationData, capsys: pytest.CaptureFixture[str]) -> None:
    assert not any("weights and tokenizers are those of" in line for line in shown(mixed, capsys))
    assert any("weights and tokenizers are those of first" in line for line in shown(mixed, capsys, "first"))


def test_the_pairs_of_an_epoch_are_told_where_some_come_more_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = numbers_data(tmp_path, directions=["de-en", "en-de"])
    assert not any(line.startswith("pairs of an epoch") for line in shown(data, capsys))
    data.settings = replace(data.settings, direction_temperature=2.0)
    assert "pairs of an epoch: de-en 174, en-de 174" in shown(data, capsys)
