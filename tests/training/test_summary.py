"""The lines before training: sentences that are left out, cut, unknown or few, and the size of the model."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.corpora import settings, write
from tests.factories import tokenizer_settings
from tests.training.small import module_for, numbers_data
from transformer.data.datamodule import TranslationData
from transformer.inference.settings import SearchSettings
from transformer.training.summary import show_run


def shown(data: TranslationData, capsys: pytest.CaptureFixture[str], init_from: str | None = None) -> list[str]:
    show_run(data, module_for(data).translator, SearchSettings(), "cpu: 1 thread", 1, init_from)
    return capsys.readouterr().err.splitlines()


@pytest.fixture
def mixed(tmp_path: Path) -> TranslationData:
    """The second of 101 pairs, the same in every split, is too long, and the third has an empty side."""
    for language, words in (("de", "ein Hund"), ("en", "a dog")):
        lines = [words] * 101
        lines[1], lines[2] = " ".join([words] * 9), words if language == "de" else ""
        write(tmp_path, f"x.{language}", lines)
    return TranslationData(settings(tmp_path), tokenizer_settings("word", 100), seed=1)


def test_long_and_empty_pairs_are_left_out_of_training_and_cut_elsewhere(
    mixed: TranslationData, capsys: pytest.CaptureFixture[str]
) -> None:
    said = shown(mixed, capsys)
    assert "train: 1 over data.max_length=10 tokens, left out: pairs 2" in said
    assert "train: 1 empty on a side, left out: pairs 3" in said
    assert "test: 1 over data.max_length=10 tokens, cut: pairs 2" in said
    assert "test: 1 empty on a side: pairs 3" in said


def test_the_table_counts_tokens_by_side_and_an_unknown_few_is_no_note(
    mixed: TranslationData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "other.de", ["ein Hund da", "Hund", "ein " * 11, "Hund " * 12])  # two are cut to 10
    write(tmp_path, "other.en", ["a cat", "a", "dog", ""])
    other = settings(tmp_path, test=str(tmp_path / "other"))
    said = shown(TranslationData(other, tokenizer_settings("word", 100), seed=1), capsys)
    rows = [line.split() for line in said]
    german = rows.index(["test", "4", "de", "24", "10", "4.17%", "2", "1"])
    assert rows[german + 1] == ["en", "4", "2", "25.00%"]
    assert [line for line in said if "unknown to" in line] == [
        "test: 25% of the tokens in en are unknown to the vocabulary"
    ]


@pytest.mark.parametrize(
    ("count", "listed"), [(10, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"), (11, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …")]
)
def test_the_first_ten_of_many_too_long_pairs_are_named(
    mixed: TranslationData, tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, listed: str
) -> None:
    for language, word in (("de", "Hund "), ("en", "dog ")):
        write(tmp_path, f"long.{language}", [word * 11] * count + [word])
    long = settings(tmp_path, validation=str(tmp_path / "long"))
    said = shown(TranslationData(long, tokenizer_settings("word", 100), seed=1), capsys)
    assert f"validation: {count} over data.max_length=10 tokens, cut: pairs {listed}" in said


def test_synthetic_pairs_are_left_out_as_others_of_training_are(
    mixed: TranslationData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for language, word in (("de", "Hund"), ("en", "dog")):
        write(
            tmp_path, f"more.{language}", [f"{word} {word}", f"{word} " * 11, "" if language == "de" else f"a {word} a"]
        )
    synthetic = settings(tmp_path, synthetic=[str(tmp_path / "more")])
    said = shown(TranslationData(synthetic, tokenizer_settings("word", 100), seed=1), capsys)
    assert "synthetic: 1 over data.max_length=10 tokens, left out: pairs 2" in said
    assert "synthetic: 1 empty on a side, left out: pairs 3" in said


def test_the_file_that_a_corpus_was_cut_from_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "x.tsv", [f"ein {letter}\ta {letter}" for letter in "abcdefghijklmnopqrst"])
    whole = settings(tmp_path, train=None, validation=None, test=None, pairs=str(tmp_path / "x.tsv"), split=[0.2, 0.2])
    said = shown(TranslationData(whole, tokenizer_settings("word", 100), seed=1), capsys)
    assert "its first pair: ein a | a a" in said


def test_a_hundred_sentences_are_not_few_and_fewer_are(
    mixed: TranslationData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any("are few" in line for line in shown(mixed, capsys))
    for language, word in (("de", "Hund"), ("en", "dog")):
        write(tmp_path, f"few.{language}", [word] * 99)
        write(tmp_path, f"hundred.{language}", [word] * 100)
    few = settings(tmp_path, test=str(tmp_path / "few"), validation=str(tmp_path / "hundred"))
    said = shown(TranslationData(few, tokenizer_settings("word", 100), seed=1), capsys)
    assert [line.partition(" sentences")[0] for line in said if "are few" in line] == ["test: 99"]


def test_words_that_the_vocabulary_lacks_are_reported_by_split_and_language(
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


def test_the_parts_of_a_model_are_distinguished(mixed: TranslationData, capsys: pytest.CaptureFixture[str]) -> None:
    translator = module_for(mixed, encoder__layers=3, positions="none").translator
    show_run(mixed, translator, SearchSettings(), "cpu: 1 thread", 1, None)
    said = capsys.readouterr().err
    sizes = {
        part: sum(weight.numel() for name, weight in translator.model.named_parameters() if name.startswith(part))
        for part in ("encoder.layers.", "decoder.layers.")
    }
    assert "3 + 2 layers, dim 24, no positions\n" in said
    assert "encoder {:,}, decoder {:,}, ".format(*sizes.values()) in said


@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
def test_references_that_no_model_could_write_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], normalization: str
) -> None:
    write(tmp_path, "x.de", ["ein Hund"] * 100)
    write(tmp_path, "x.zh", ["好，的。"] * 60 + ["好的"] * 40)
    corpus = str(tmp_path / "x")
    chinese = settings(tmp_path, target_language="zh", train=corpus, validation=corpus, test=corpus)
    data = TranslationData(chinese, tokenizer_settings("char", 100, normalization=normalization), seed=1)
    said = [line for line in shown(data, capsys) if "of the references" in line]
    expected = "the tokenizer can write 40.0% of the references; 好，的。 would become 好,的。"
    assert said == ([f"{split}: {expected}" for split in ("validation", "test")] if normalization == "nfkc" else [])


def test_the_source_of_the_initial_weights_is_printed(
    mixed: TranslationData, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not any("weights and tokenizers come from" in line for line in shown(mixed, capsys))
    assert any("weights and tokenizers come from first" in line for line in shown(mixed, capsys, "first"))


def test_the_pairs_of_an_epoch_are_reported_if_some_come_more_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = numbers_data(tmp_path, directions=["de-en", "en-de"])
    assert not any(line.startswith("pairs of an epoch") for line in shown(data, capsys))
    data.settings = replace(data.settings, direction_temperature=2.0)
    assert "pairs of an epoch: de-en 174, en-de 174" in shown(data, capsys)


def test_it_is_reported_that_a_small_direction_comes_more_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, count in (("x.de-en", 36), ("x.en-de", 9)):
        write(tmp_path, f"{name}.de", ["ein Hund"] * count)
        write(tmp_path, f"{name}.en", ["a dog"] * count)
    both = settings(tmp_path, directions=["de-en", "en-de"], direction_temperature=2.0)
    data = TranslationData(both, tokenizer_settings("word", 100), seed=1)
    # 45 pairs, in proportion to √36 : √9.
    assert "pairs of an epoch: de-en 30, en-de 15" in shown(data, capsys)
