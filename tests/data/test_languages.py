"""Swapped columns and a side in another language are found before training."""

from pathlib import Path
from shutil import copy

import pytest

from tests.data.corpora import BPE, TOY, settings, write
from transformer.data.datamodule import TranslationData
from transformer.data.languages import base_language, code_meant, language_faults, looks_like, name_of, scripts

ENGLISH, GERMAN = (
    (TOY / f"test.{language}").read_text(encoding="utf-8").splitlines()[:100] for language in ("en", "de")
)
CHINESE = ["您可以在对话框中组合多个排序条件。", "LibreOffice 中的 Python 脚本", "打开文件"]


def test_scripts_are_counted_by_letter() -> None:
    assert scripts("abc 12") == {"LATIN": 3}
    assert scripts("aя漢かカ한") == {"LATIN": 1, "CYRILLIC": 1, "CJK": 3, "HANGUL": 1}


def test_languages_are_recognized_by_script_and_by_frequent_words() -> None:
    assert looks_like(ENGLISH, "zh") == "LATIN script"
    assert looks_like(CHINESE[:1], "en") == "CJK script"
    assert [looks_like([text], "zh") for text in CHINESE] == [None] * 3
    assert (looks_like(ENGLISH, "de"), looks_like(GERMAN, "en")) == ("en", "de")
    assert (looks_like(ENGLISH, "en"), looks_like(GERMAN, "de-at")) == (None, None)
    assert looks_like(ENGLISH, "xx") is None
    assert looks_like(["Tom."], "zh") is None


def test_a_code_of_three_letters_means_the_language_of_its_two() -> None:
    assert [base_language(code) for code in ("cmn", "zho_Hant", "JPN", "kor-Hang", "deu", "en-GB", "yue", "nds")] == [
        *("zh", "zh", "ja", "ko", "de", "en", "yue", "nds")
    ]
    assert name_of("eng_Latn") == "English"
    assert looks_like(ENGLISH, "deu_Latn") == "en"


def test_a_country_or_a_name_is_distinguished_from_the_code_of_a_language() -> None:
    meant = {"cn": "zh", "jp": "ja", "ua": "uk", "cz": "cs", "dk": "da", "vn": "vi", "German": "de", "deutsch": "de"}
    assert {code: code_meant(code) for code in meant} == meant
    # Kanuri, Northern Sami and Cornish have the codes of countries; the last two are invented.
    codes = "kr se kw de zh_Hant cmn yue nds tlh xx zz aa qq noisy src a x1 xxx".split()
    assert [code_meant(code) for code in codes] == [None] * len(codes)


def test_the_code_of_a_language_that_looks_like_its_country_is_asked_about() -> None:
    pairs = [("eins", "나는 학생입니다."), ("zwei", "저는 고양이를 좋아합니다.")]
    [fault] = language_faults(pairs, ("de", "kr"))[1]
    assert fault.startswith("data.target_language=kr (did you mean ko?), but its sentences look like HANGUL script")


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        *(("uz_Cyrl", "LATIN script"), ("uz_Latn", None), ("ru-Latn-RU", None), ("ru-RU", "LATIN script")),
        *(("zh_Hant", "LATIN script"), ("jpn_Jpan", "LATIN script"), ("zh_Latn", None), ("ru_Xsux", "LATIN script")),
        *(("de_Latn", "en"), ("de_Xsux", "LATIN script")),
    ],
)
def test_the_script_that_a_code_names_is_expected(code: str, seen: str | None) -> None:
    assert looks_like(ENGLISH, code) == seen


@pytest.mark.parametrize(
    ("text", "language"),
    [
        *(("No, no, no!", "en"), ("Ha ha ha!", "en"), ("Er kam, er sah, er siegte.", "de")),
        *(("Es regnet, es schneit, es stürmt.", "de"), ("Un homme tient un enfant sur un banc.", "fr")),
    ],
)
def test_a_word_that_comes_again_and_again_makes_no_other_language(text: str, language: str) -> None:
    assert looks_like([text], language) is None


def test_names_from_another_language_make_no_other_language() -> None:
    assert looks_like(['"Das Boot" und "Der Untergang" are the films'], "en") is None


def test_a_side_in_another_language_is_named_with_an_example() -> None:
    pairs = list(zip(GERMAN, ENGLISH, strict=True))
    assert language_faults(pairs, ("de", "en")) == (False, [])
    is_swapped, [fault] = language_faults(pairs, ("de", "zh"))
    assert not is_swapped
    assert fault == f"data.target_language=zh, but its sentences look like LATIN script: {ENGLISH[0]}"
    assert language_faults([("", ""), *pairs], ("de", "zh")) == (False, [fault])  # not the empty line
    assert language_faults(pairs, ("en", "de"))[0]
    assert language_faults(pairs, ("zh", "ru"))[0] is False  # both sides are wrong, also if they are swapped
    assert language_faults([], ("en", "de")) == (False, [])


def test_training_refuses_swapped_columns(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", [f"{english}\t{german}" for german, english in zip(GERMAN, ENGLISH, strict=True)])
    splits = ("train", "validation", "test")
    swapped = settings(tmp_path, **dict.fromkeys(splits, str(tmp_path / "x.tsv")))
    with pytest.raises(ValueError, match=r"swapped: data.source_language=de, but .* look like en: .* data.columns"):
        TranslationData(swapped, BPE, seed=1)
    for language, other in (("de", "en"), ("en", "de")):
        copy(TOY / f"train.{language}", tmp_path / f"y.de-en.{language}")
        copy(TOY / f"train.{language}", tmp_path / f"y.en-de.{other}")
    both = settings(tmp_path, directions=["de-en", "en-de"], **dict.fromkeys(splits, str(tmp_path / "y")))
    with pytest.raises(ValueError, match=r"swapped: data.source_language=en, but .* look like de"):
        TranslationData(both, BPE, seed=1)
