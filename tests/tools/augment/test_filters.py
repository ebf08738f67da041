"""Every filter of synthetic pairs drops its faults, before the translation if possible, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.data.corpora import TOY
from tests.factories import tokenizer_settings
from tests.tools.doctor.corpora import TEST, TRAIN, VALIDATION, clean, moved, said, write
from transformer.data.splitting import comparable
from transformer.data.tokenizer import train_tokenizer
from transformer.data.words import Line
from transformer.tools.augment.filters import FILTERS, PairFilter

NEW = clean(40, seed=7)
GERMAN, ENGLISH = NEW[0]
BAD_TEXTS = {
    "empty": "",
    "too_long": " ".join([GERMAN] * 30),
    "held_out": TEST[3][0],
    "unprintable": f"{GERMAN}\x07",
    "wrong_encoding": f"{GERMAN} fÃ¼r",
    "wrong_script": "Привет, мир! Как у вас дела сегодня вечером?",
    "wrong_language": ENGLISH,
    "repetition": "Und dann ein Hund, ein Hund, ein Hund, ein Hund.",
}
BAD_TRANSLATIONS = {
    "empty": "",
    "too_long": " ".join([ENGLISH] * 30),
    "held_out": said(VALIDATION[3][1]),
    "unprintable": f"{ENGLISH} \ufffd",
    "wrong_encoding": f"{ENGLISH} itâ€™s",
    "wrong_script": BAD_TEXTS["wrong_script"],
    "wrong_language": NEW[1][0],
    "repetition": "And then a dog a dog a dog a dog.",
    "copied": GERMAN.upper(),
    "length_ratio": "Oh!",
}


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> PairFilter:
    corpus = write(tmp_path_factory.mktemp("corpus"), {"train": TRAIN, "test": TEST, "validation": VALIDATION})
    tokenizer = train_tokenizer((text for pair in TRAIN for text in pair), tokenizer_settings("bpe", 900))
    corpus = replace(corpus, max_length=300)
    return PairFilter(list(FILTERS), corpus, (tokenizer, tokenizer), ("de", "en"))


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_text_with_a_fault_is_dropped_before_it_is_translated(chosen: PairFilter, name: str) -> None:
    assert chosen.check_text(1, BAD_TEXTS[name]) == name


def test_three_chinese_characters_are_enough_to_be_foreign(chosen: PairFilter) -> None:
    assert chosen.check_text(1, "红狗书。") == "wrong_script"


@pytest.mark.parametrize("name", BAD_TRANSLATIONS)
def test_a_translation_with_a_fault_is_dropped(chosen: PairFilter, name: str) -> None:
    assert chosen.check_pair(1, GERMAN, BAD_TRANSLATIONS[name]) == name


@pytest.mark.parametrize(("text", "repeats"), [("192.168.0.1", False), ("1 + 2 + 3 + 4", False), ("7, 7, 7, 7", True)])
def test_numbers_that_differ_are_no_repetition(chosen: PairFilter, text: str, repeats: bool) -> None:
    line = Line(1, (text, ""), (text, ""))
    assert FILTERS["repetition"].find(line, chosen.context) == (repeats, False)


def test_four_words_again_and_again_are_a_repetition_too(chosen: PairFilter) -> None:
    assert chosen.check_text(1, " ".join(GERMAN.split()[:4] * 4)) == "repetition"


def test_a_text_of_as_many_tokens_as_training_takes_is_kept(chosen: PairFilter) -> None:
    tokens = len(chosen.context.tokenizers[0].encode(GERMAN))
    line = Line(1, (GERMAN, ""), (GERMAN, ""))
    for max_length, is_too_long in ((tokens, False), (tokens - 1, True)):
        context = replace(chosen.context, max_length=max_length)
        assert FILTERS["too_long"].find(line, context)[0] == is_too_long


def test_most_of_a_held_out_sentence_is_held_out(chosen: PairFilter) -> None:
    assert chosen.check_text(1, TEST[5][0].rpartition(" ")[0]) == "held_out"


def test_the_second_of_two_equal_texts_is_dropped_also_after_a_resumption(chosen: PairFilter) -> None:
    assert [chosen.check_text(1, NEW[5][0]), chosen.check_text(2, NEW[5][0])] == [None, "duplicate"]
    assert list(chosen.mark_seen([NEW[6][0]])) == [NEW[6][0]]
    assert chosen.check_text(3, NEW[6][0]) == "duplicate"


def test_good_pairs_are_kept(chosen: PairFilter) -> None:
    for number, (source, target) in enumerate(NEW[10:], 1):
        assert chosen.check_text(number, source) is None
        assert chosen.check_pair(number, source, target) is None


@given(
    st.sampled_from([*TEST, *VALIDATION]), st.integers(0, 1), st.sampled_from([str, said, moved, str.lower]), st.data()
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_sentence_of_validation_or_test_is_kept_however_it_is_written(
    chosen: PairFilter, pair: tuple[str, str], side: int, written: object, data: st.DataObject
) -> None:
    text = written(pair[side])  # type: ignore[operator]
    places = st.integers(0, len(text))
    for mark in data.draw(st.lists(st.sampled_from(" -.!„“,;"), max_size=3)):
        place = data.draw(places)
        text = text[:place] + mark + text[place:]
    if comparable(text) == comparable(pair[side]) or written is moved:
        assert chosen.check_text(1, text) is not None or chosen.check_pair(1, GERMAN, text) is not None


def test_the_other_direction_is_filtered_by_the_same_corpus(tmp_path: Path) -> None:
    corpus = write(tmp_path, {"train": TRAIN, "test": TEST, "validation": VALIDATION})
    tokenizer = train_tokenizer(
        (TOY / "test.en").read_text(encoding="utf-8").splitlines(), tokenizer_settings("char", 99)
    )
    chosen = PairFilter(["held_out", "wrong_language", "length_ratio"], corpus, (tokenizer, tokenizer), ("en", "de"))
    assert chosen.check_text(1, TEST[0][1]) == "held_out"
    assert chosen.check_text(2, GERMAN) == "wrong_language"
    assert chosen.check_text(3, ENGLISH) is None
    assert chosen.check_pair(3, ENGLISH, GERMAN) is None


def test_a_held_out_sentence_of_a_third_language_is_dropped_too(tmp_path: Path) -> None:
    """Training refuses such a sentence on either side, in any language."""
    corpus = write(tmp_path, {"train": TRAIN, "test": TEST, "validation": VALIDATION})
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.fr").write_text(
            (tmp_path / f"{split}.de").read_text(encoding="utf-8").replace(TEST[0][0], "Hotel Paris"), encoding="utf-8"
        )
    corpus = replace(corpus, directions=["de-en", "fr-en"])
    tokenizer = train_tokenizer((text for pair in TRAIN for text in pair), tokenizer_settings("bpe", 900))
    chosen = PairFilter(["held_out"], corpus, (tokenizer, tokenizer), ("de", "en"))
    assert chosen.check_text(1, "hotel paris!") == "held_out"
    assert chosen.check_text(2, GERMAN) is None


def test_most_of_a_held_out_sentence_of_another_direction_is_held_out(tmp_path: Path) -> None:
    corpus = write(tmp_path, {"train": TRAIN, "test": TEST, "validation": VALIDATION})
    for split in ("train", "validation", "test"):
        for side, language in enumerate(("fr", "en")):
            (tmp_path / f"{split}.fr-en.{language}").write_text(f"{NEW[8][side]}\n", encoding="utf-8")
    corpus = replace(corpus, directions=["de-en", "fr-en"])
    tokenizer = train_tokenizer((text for pair in TRAIN for text in pair), tokenizer_settings("bpe", 900))
    chosen = PairFilter(["held_out"], corpus, (tokenizer, tokenizer), ("de", "en"))
    assert chosen.check_pair(1, GERMAN, NEW[8][1].rpartition(" ")[0]) == "held_out"
    assert chosen.check_pair(1, GERMAN, NEW[9][1]) is None
