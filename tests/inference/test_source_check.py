"""A text that the model cannot read gives a notice, and other texts give none."""

from pathlib import Path

import pytest

from tests.factories import tokenizer_settings
from transformer.data.text_files import read_lines
from transformer.data.tokenizer import Tokenizer, train_tokenizer
from transformer.inference.source_check import MAX_NAMED, SourceCheck

TOY = Path(__file__).parents[2] / "data" / "toy"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [text for language in ("de", "en") for text in read_lines(TOY / f"train.{language}")]
    return train_tokenizer(texts, tokenizer_settings("bpe", 300))


def said(check: SourceCheck, texts: list[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    check.check(texts, check.tokenizer.encode_all(texts), range(1, len(texts) + 1))
    return caplog.messages


@pytest.mark.long
def test_the_bundled_test_sets_raise_no_alarm_in_a_file_or_line_by_line(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    for language, other in (("de", "en"), ("en", "de")):
        for split in ("test", "compositional"):
            texts = list(read_lines(TOY / f"{split}.{language}"))
            check = SourceCheck(tokenizer, (language, other))
            assert not said(check, texts, caplog)
            assert not [text for text in texts if said(check, [text], caplog)]


@pytest.mark.parametrize(
    ("text", "languages", "seen"),
    [
        ("Hallo Welt", ("zh", "en"), "the text looks like LATIN script, but is translated zh → en"),
        ("你好世界", ("de", "en"), "the text looks like CJK script, but is translated de → en"),
        ("the dog is in the park with the man", ("de", "en"), "the text looks like en, but"),
    ],
)
def test_a_text_in_another_language_gives_one_notice(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture, text: str, languages: tuple[str, str], seen: str
) -> None:
    check = SourceCheck(tokenizer, languages)
    assert said(check, [text], caplog)[0].startswith(seen)
    assert not said(check, [text], caplog)


def test_a_direction_for_another_language_is_named_if_there_is_one(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    check = SourceCheck(tokenizer, ("de", "en"), [("de", "en"), ("en", "de")])
    [message] = said(check, ["the dog is in the park with the man"], caplog)
    assert message.endswith("is translated de → en; the target language de (--target) asks for en → de")


def test_characters_that_the_vocabulary_lacks_are_named_once(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    check = SourceCheck(tokenizer, ("de", "en"))
    texts = ["der Hund", "der 龘 und das 靐 im Park", "der 龘 im Park"]
    assert said(check, texts, caplog) == ["line 2: not in the model's vocabulary: 龘 靐"]
    assert said(check, ["das 靐 und ein 齉"], caplog) == ["line 1: not in the model's vocabulary: 齉"]
    many = ["der Hund und " + chr(0x4E00 + number) for number in range(3 * MAX_NAMED)]
    assert len(said(check, many, caplog)) < MAX_NAMED
