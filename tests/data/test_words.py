"""Lines of the files compared with the lines that training reads."""

import gzip
import unicodedata
from pathlib import Path

import pytest

from tests.factories import data_settings
from transformer.data.splitting import hash64
from transformer.data.text_files import find_files, read_pairs
from transformer.data.words import has_byte_order_mark, read_raw, trigrams, words

LANGUAGES = ("de", "en")
REST = {"validation": "x", "test": "x", "source_language": "de", "target_language": "en"}
SOURCE, TARGET = "\ufeff eins\r\nzwei \ndrei", "one\n\ttwo\nthree\n"


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_raw_lines_keep_what_reading_removes(tmp_path: Path, ending: str) -> None:
    for language, text in zip(LANGUAGES, (SOURCE, TARGET), strict=True):
        content = text.encode()
        (tmp_path / f"x.{language}{ending}").write_bytes(gzip.compress(content) if ending else content)
    files = find_files(str(tmp_path / "x"), *LANGUAGES)
    lines = list(read_raw(data_settings(train=str(tmp_path / "x"), **REST), "train"))
    assert [line.raw for line in lines] == [(" eins\r", "one"), ("zwei ", "\ttwo"), ("drei", "three")]
    assert [line.text for line in lines] == list(read_pairs(files, *LANGUAGES))
    assert [has_byte_order_mark(path) for path in files] == [True, False]


@pytest.mark.parametrize(("header", "expected"), [("", 0), ("de\ten\n", 0), ("en\tde\n", 1)])
def test_a_tsv_is_read_as_training_reads_it(tmp_path: Path, header: str, expected: int) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(f"{header}eins \tone\nzwei\ttwo\n", encoding="utf-8")
    lines = list(read_raw(data_settings(train=str(path), **REST), "train"))
    assert [line.text for line in lines] == list(read_pairs([path], *LANGUAGES))
    assert lines[0].raw[expected] == "eins "
    assert [line.number for line in lines] == [1, 2]


def test_the_columns_that_are_named_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("7\tone\teins\n8\ttwo\tzwei\n", encoding="utf-8")
    lines = read_raw(data_settings(train=str(path), **REST, columns=[3, 2]), "train")
    assert [line.text for line in lines] == [("eins", "one"), ("zwei", "two")]


def test_words_are_compared_without_case_marks_and_numbers() -> None:
    assert words("Am 3. Mai 2024: „Grüße“!") == words("am 17 MAI, 1999 (grüße)") == ["am", "0", "mai", "0", "grüße"]
    assert words("第3个 Menü") == ["第", "0", "个", "menü"]


@pytest.mark.parametrize("text", ["हिन्दी में लिखा हुआ", "தமிழ் மொழி", "مُحَمَّدٌ رَسُولٌ", "scho\u0308n gru\u0308n"])
def test_a_mark_belongs_to_the_letter_before_it(text: str) -> None:
    assert words(f"„{text}!“") == unicodedata.normalize("NFC", text).split()


def test_a_character_is_a_word_where_no_spaces_are_written() -> None:
    assert words("ភាសា។ မြန်မာ။ ລາວ ไทย") == [*"ភាសាမြန်မာລາວไทย"]


def test_different_texts_have_different_hashes() -> None:
    assert hash64("a", "b") != hash64("ab", "") != hash64("b", "a")
    found, others = trigrams("Haus am See"), trigrams("haus am meer")
    assert len(found) == len("Haus am See")
    assert found[:7].tolist() == others[:7].tolist()
    assert set(found[7:].tolist()).isdisjoint(others[7:].tolist())
