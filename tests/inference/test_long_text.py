"""Sentence ends are found as by a reader, and sentences are translated one by one if this is set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.export.models import random_translator, small_tokenizer
from transformer import Translator
from transformer.inference.long_text import split_sentences
from transformer.inference.translator import BEAM

TWO = "ja. Wir gehen in den Park."


@pytest.fixture
def translator() -> Translator:
    translator = random_translator(small_tokenizer())
    translator.warns_of_lines = True
    return translator


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "sentences" in message]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Ein Mann fährt Rad. ", "Zwei Hunde spielen!  ", "Warum? ", "5 Kinder sitzen am Tisch."],
        ["Dr. Müller kommt am 3. Mai, z. B. um 8 Uhr. ", "Dann geht er."],
        ["Nach Art. 5 Abs. 2 GG (geb. 1904), siehe Fig. 3 und S. 120. ", "Das kostet ca. 5 Euro inkl. Tee. ", "Gut."],
        ["Friedrich II. war König. ", "See No. 5, pp. 12 of vol. 21a. ", "On Jan. 5 we met Gov. Smith and Sra. López."],
        ["It was in 1990. ", "12 of us went 100 km. ", "He is from Bonn. ", "5 went."],
        ["He lives in the U.S. Army base. ", "It is big... and old."],
        ["It costs 150. ", "I was born in 1990. ", "Never mind. ", "He is Max. ", "Go on!"],
        ['Er sagt: "Komm!" ', "Sie kommt. ", "(Nein.) ", "Ja"],
        ["今日は雨です。", "「明日は？」と言った。", "東京！"],
        ["क्या? ", "हाँ। ", "अच्छा।"],
        ["کیا؟ ", "ہاں۔ ", "اچھا۔"],
        ["Ինչո՞ւ։ ", "Այո։ ", "ለምን? ", "አዎ። ", "នេះ។ ", "ဒါ။ ", "ဟုတ်တယ်။"],
        ["one. two.three"],
        ["only one. "],
        [""],
    ],
    ids=lambda sentences: sentences[0][:12],
)
def test_a_text_is_cut_where_its_sentences_end(sentences: list[str]) -> None:
    assert split_sentences("".join(sentences)) == sentences


@given(st.text(alphabet='aB1.!?。」" \n…', max_size=40))
def test_sentences_spell_the_text(text: str) -> None:
    assert "".join(split_sentences(text)) == text


def test_a_long_line_of_marks_is_cut_too() -> None:
    # This takes half a second; it would take many minutes if each step searched the whole rest.
    assert [len(split_sentences(mark * 50_000)) for mark in (". ", "A. ", "Ja. ")] == [50_000, 1, 50_000]


def test_several_sentences_give_a_notice_and_can_be_translated_one_by_one(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    single = translator.translate(["ja.", "Wir gehen in den Park."])
    assert translator.translate(TWO, split_lines="sentences") == " ".join(single)
    assert not said(caplog)
    for _ in range(2):
        translator.translate(TWO)
    assert said(caplog) == [
        "line 1 has 2 sentences, translated as one: --split-lines sentences translates each by itself"
    ]


def test_a_few_lines_of_two_sentences_are_what_a_model_has_learned_from(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    translator.translate(["ja", "ja", TWO, ""], BEAM)
    assert not said(caplog)


def test_many_lines_of_two_sentences_give_a_notice(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    translator.translate(["ja", TWO, ""], BEAM)
    assert len(said(caplog)) == 1
