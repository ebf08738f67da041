"""Text is written again as it was read, in every script; invisible characters are kept if they have a meaning."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import tokenizer_settings
from transformer.data.clean import INVISIBLE, clean, rules
from transformer.data.splitting import comparable
from transformer.data.tokenizer import train_tokenizer
from transformer.data.words import words

# Sentences in many scripts, in their usual form and decomposed.
SENTENCES = [
    *(
        "Das kostet 2½ € pro m², d. h. 10³ ¢ ª ﬁ.",
        "Ｆｕｌｌ ｗｉｄｔｈ ① ㍿ ﬀ",
        "می‌خواهم کتاب‌ها را بخوانم.",
        "ภาษาไทยน้ำ กำลัง",
    ),
    *(
        "ພາສາລາວ ນ້ຳ ທຳ",
        "ខ្ញុំ​ស្រឡាញ់​ភាសា",
        "한국어 문장이다.",
        "我喜欢，ＡＢＣ。「好」",
        "日本語のテキスト、ｶﾀｶﾅ。",
        "हिन्दी क्‍ष शक्‌ति",
    ),
    *("ශ්‍රී ලංකා", "বাংলা ত্‍", "שלום (abc)\u200f, עולם", "العربية \u200eC++\u200e لغة", "Việt Nam ế Ǖ", "Ελληνικά ἄνθρωπος"),
    *(
        "မြန်မာ​စာ",
        "བོད་ཡིག",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f ❤️ 1️⃣ 👩‍🔬",
        "葛\U000e0100城市",
    ),
]
TEXTS = [*SENTENCES, *(unicodedata.normalize("NFD", text) for text in SENTENCES)]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_every_character_of_the_vocabulary_is_written_as_it_was_read(kind: str) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings(kind, {"bpe": 420, "unigram": 209}.get(kind, 900)))
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == clean(text)
        assert clean(text) == unicodedata.normalize("NFC", text)
    draw, letters = random.Random(1), sorted(set("".join(map(clean, TEXTS))))
    for _ in range(300 if kind != "word" else 0):  # a word of random letters is in no vocabulary
        text = "".join(draw.choices(letters, k=draw.randint(1, 12)))
        assert tokenizer.decode(tokenizer.encode(text)) == clean(text), ascii(text)


@given(st.text(max_size=30))
def test_clean_text_stays_unchanged(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert once == " ".join(once.split())
    assert unicodedata.is_normalized("NFC", once)


@given(st.text(alphabet="aé한पी文א م🎉.\u200b\u200c\u200d\u200e\u202b\xad\ufe0f\u0301\x00▁", max_size=20))
def test_only_marks_spaces_and_signs_of_pieces_are_changed(text: str) -> None:
    visible = INVISIBLE.sub("", unicodedata.normalize("NFC", INVISIBLE.sub("", text)))
    assert INVISIBLE.sub("", clean(text)).split() == visible.replace("▁", "_").split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (f"Hu{mark}nd", "Hund")
            for mark in "\xad\u200b\u200c\u200d\u2060\u200e\ufeff\ufe0f\u202a\u2068\0\x08\U000e0061"
        ),
        ("\ufeffEin\u00a0Hund\u3000 läuft\u2028.\t", "Ein Hund läuft ."),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("شرکت\u200c‌ها", "شرکت\u200c\u200cها"),
        ("של\u200eום", "שלום"),
        ("ab\u200f, \u200fc", "ab, c"),
        ("שלום\u200f!", "שלום\u200f!"),
        ("☎\ufe0f und a\ufe0fb", "☎\ufe0f und ab"),
        ("c\u200da👩\u200d🔬", "ca👩\u200d🔬"),
        ("snake▁case ⁀", "snake_case ‿"),
        ("a" + "\u0301" * 200, "á" + "\u0301" * 29),
    ],
)
def test_an_invisible_character_with_a_meaning_stays(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.long
def test_the_rules_within_a_tokenizer_say_the_same() -> None:
    tokenizer = train_tokenizer(SENTENCES * 3, tokenizer_settings("char", 400))
    for written, becomes in rules().items():
        text = f"a{written}.b"
        assert clean(text) == clean(f"a{becomes}.b")
        normalized = str(tokenizer._processor.Normalize(text)).replace("▁", " ").strip()
        assert unicodedata.normalize("NFC", normalized) == clean(text)


@pytest.mark.parametrize("character", ["\u0301\u0323", "\u200b", "\u200d\ufe0f", "\u0e31", "\xad"])
def test_long_runs_of_marks_and_of_invisible_characters_are_bounded(character: str) -> None:
    # This takes milliseconds; sorting all these marks would take minutes.
    text = f"a{character * 200_000}b"
    assert len(clean(text)) < 40
    assert {*comparable(text)} | {*"".join(words(text))} <= {*clean(text), *text}
