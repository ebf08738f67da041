"""Text → ids → text for every kind of tokenizer, and the messages for a corpus that is too small."""

import io
import re
import unicodedata
from functools import cache
from pathlib import Path
from random import Random

import pytest
import sentencepiece
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.data.corpora import write
from tests.factories import data_settings, tokenizer_settings
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import (
    BOS,
    EOS,
    LONG,
    MAX_GROWTH,
    PAD,
    UNK,
    Kind,
    Tokenizer,
    train_tokenizer,
)

TOY = Path(__file__).parents[2] / "data" / "toy"
KINDS: list[Kind] = ["bpe", "unigram", "word", "char"]


def trained(kind: Kind, size: int = 700, byte_fallback: bool = False) -> Tokenizer:
    texts = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()
    return train_tokenizer(texts, tokenizer_settings(kind, size, byte_fallback=byte_fallback))


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_what_was_encoded_gives_the_text(kind: Kind) -> None:
    tokenizer = trained(kind, 2000 if kind == "word" else 700)
    for text in (TOY / "validation.de").read_text(encoding="utf-8").splitlines()[:200]:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert len(tokenizer) == (700 if kind in ("bpe", "unigram") else len(tokenizer))


def test_long_lines_are_learned_from() -> None:
    lines = (TOY / "validation.de").read_text(encoding="utf-8").splitlines()
    tokenizer = train_tokenizer([*lines, "ж щ ю " * 1000], tokenizer_settings("bpe", 700))
    assert tokenizer.unknown("ю щ ж") == []


def test_what_is_too_long_for_a_word_is_not_learned_so_that_the_model_can_be_loaded() -> None:
    lines = ["ein Wort und", "x" * 60_000, "x" * 6000, "x" * 4000]
    tokenizer = train_tokenizer(lines, tokenizer_settings("word", 2000))
    assert tokenizer.decode(tokenizer.encode("ein Wort und " + "x" * 4000)) == "ein Wort und " + "x" * 4000
    assert tokenizer.unknown("ein " + "x" * 6000) == ["x" * 6000]


def test_a_word_of_letters_of_several_bytes_is_measured_by_its_bytes() -> None:
    tokenizer = train_tokenizer(["ein Wort", "猫" * 2000], tokenizer_settings("word", 2000))
    assert tokenizer.unknown("猫" * 2000) == ["猫" * 2000]


def test_a_long_line_is_refused_where_normalization_makes_it_much_longer_still(tmp_path: Path) -> None:
    (tmp_path / "rules.tsv").write_text(
        f"61\t{' '.join(['62'] * (MAX_GROWTH + 1))}\n", encoding="utf-8"
    )  # a becomes bbb…
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["b c d"] * 9),
        model_writer=model,
        model_type="char",
        vocab_size=9,
        hard_vocab_limit=False,
        normalization_rule_tsv=str(tmp_path / "rules.tsv"),
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
    )
    tokenizer = Tokenizer(model.getvalue(), "char")
    assert len(tokenizer.encode("a")) > MAX_GROWTH, "a short line may be"
    with pytest.raises(ValueError, match=r"^a line of 1,001 characters is too long for this tokenizer$"):
        tokenizer.encode("a" * (LONG + 1))


def test_the_languages_of_a_vocabulary_are_those_of_its_tags() -> None:
    tagged = trained("bpe").with_tags(["en", "zh_Hans"], synthetic_tag=True)
    assert tagged.tagged_languages == ["en", "zh_Hans"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_is_its_bytes(kind: Kind) -> None:
    tokenizer = trained(kind)
    again = Tokenizer(tokenizer.model, kind)
    assert again.encode("Der Hund läuft.") == tokenizer.encode("Der Hund läuft.")
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        Tokenizer(b"something else", kind)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_that_are_added_later_leave_the_ids_of_all_texts_as_they_were(kind: Kind) -> None:
    before, texts = trained(kind), (TOY / "validation.de").read_text(encoding="utf-8").splitlines()[:200]
    tagged = before.with_tags(["en", "fr"], synthetic_tag=True)
    assert tagged.encode_all(texts) == before.encode_all(texts)
    first = len(before)
    assert [tagged.piece(id) for id in range(first, len(tagged))] == ["<2en>", "<2fr>", "<bt>"]
    assert Tokenizer(tagged.model, kind, "fr", is_synthetic=True).prefix == [first + 1, first + 2]
    # Special tokens that are written in a text are plain text.
    assert not set(tagged.encode("<2fr> <bt>")) & set(range(first, len(tagged)))
    assert tagged.decode([first, *tagged.encode(texts[0])]) == texts[0]
    assert tagged.with_tags(["fr"]) is tagged
    assert len(tagged.with_tags(["fr", "cs"])) == len(tagged) + 1


@given(st.lists(st.sampled_from(["Hund", "Haus", "der", ",", ".", "?", " ", "(", ")", "-", "'"]), max_size=12))
def test_words_and_marks_are_put_together_again_as_they_were(parts: list[str]) -> None:
    text = " ".join("".join(parts).split())
    tokenizer = words()
    ids = tokenizer.encode(text)
    assume(UNK not in ids)
    assert tokenizer.decode(ids) == text


@cache
def words() -> Tokenizer:
    texts = [text for mark in ",.?()-'" for text in (f"Hund{mark} Haus", f"{mark} der {mark}{mark} {mark}Hund")]
    return train_tokenizer(texts, tokenizer_settings("word", 2000))


@pytest.mark.parametrize("word", ["हिन्दी", unicodedata.normalize("NFD", "Männer"), "Haus"])
def test_a_mark_belongs_to_the_letter_before_it(word: str) -> None:
    tokenizer = train_tokenizer([f"{word}, {word}."] * 3, tokenizer_settings("word", 2000))
    pieces = tokenizer.pieces(f"{word}.")
    assert [unicodedata.normalize("NFKC", piece) for piece in pieces] == [
        unicodedata.normalize("NFKC", f"▁{word}"),
        "▁⁀.",
    ]


def test_byte_fallback_leaves_nothing_unknown() -> None:
    tokenizer = trained("bpe", 700, byte_fallback=True)
    assert tokenizer.decode(tokenizer.encode("Ж 猫 🙂")) == "Ж 猫 🙂"
    assert UNK in trained("bpe").encode("猫")


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_words_spelt_in_bytes_are_put_together_as_they_were(kind: Kind) -> None:
    tokenizer = trained(kind, 2000 if kind == "word" else 700, byte_fallback=True)
    for text in ("Der Жук schläft.", "猫, Hund (Жук) 🙂!", "Жук", "Der Hund"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        for place in range(len(ids) + 1):  # special ids give no text, at any place
            assert tokenizer.decode([*ids[:place], BOS, EOS, PAD, *ids[place:]]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tags_stand_before_every_segmentation_of_a_text(kind: Kind) -> None:
    tagged = Tokenizer(trained(kind).with_tags(["fr"], synthetic_tag=True).model, kind, "fr", is_synthetic=True)
    text = "Die Kinder spielen im Garten."
    drawn = [tagged.sample_segmentation(tagged.encode(text), 0.5, Random(seed)) for seed in range(9)]
    assert len(set(map(tuple, drawn))) > 1
    assert {tuple(ids[:2]) for ids in drawn} == {tuple(tagged.prefix)}
    assert not {id for ids in drawn for id in ids[2:]} & set(tagged.prefix), "once"
    assert {tagged.decode(ids) for ids in drawn} == {text}


def test_a_tokenizer_with_other_special_ids_is_refused() -> None:
    model = io.BytesIO()
    texts = iter((TOY / "validation.de").read_text(encoding="utf-8").splitlines())
    sentencepiece.SentencePieceTrainer.Train(  # its own ids, without padding
        sentence_iterator=texts, model_writer=model, model_type="bpe", vocab_size=300, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"has other special ids, \(-1, 0, 1, 2\), than this program"):
        Tokenizer(model.getvalue(), "bpe")


def test_the_rarest_characters_are_left_out_if_asked_for() -> None:
    texts = ["ein Haus am See"] * 200 + ["猫"]
    for coverage, unknown in ((1.0, []), (0.999, ["猫"])):
        tokenizer = train_tokenizer(texts, tokenizer_settings("char", 100, character_coverage=coverage))
        assert tokenizer.unknown("ein Haus 猫") == unknown


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_of_a_wrong_size_is_refused_with_the_largest_or_smallest(kind: Kind) -> None:
    with pytest.raises(ValueError, match=r"tokenizer.vocabulary_size=5000 is more .*; choose \d+ or less"):
        train_tokenizer(["ein Haus", "zwei Hunde"], tokenizer_settings(kind, 5000))
    with pytest.raises(ValueError, match=r"vocabulary_size=10 is less than the corpus' characters need") as caught:
        trained(kind, 10)
    smallest = int(re.findall(r"choose (\d+) or more", str(caught.value))[0])
    assert len(trained(kind, smallest)) == smallest
    with pytest.raises(ValueError, match=f"choose {smallest} or more"):
        trained(kind, smallest - 1)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_vocabulary_follows_a_corpus_with_thousands_of_characters(tmp_path: Path, kind: Kind, joint: bool) -> None:
    han = [f"{chr(0x4E00 + i)}{chr(0x5E00 + i)}{chr(0x4E00 + i % 9)}很好" for i in range(500)]
    for split in ("train", "validation", "test"):
        write(tmp_path, f"{split}.zh", han)
        write(tmp_path, f"{split}.en", ["the house is very good"] * len(han))
    splits = {split: str(tmp_path / split) for split in ("train", "validation", "test")}
    corpus = data_settings(**splits, source_language="zh", cache=str(tmp_path / "cache"))
    for _ in range(2):  # the second time it comes from the cache
        data = TranslationData(corpus, tokenizer_settings(kind, 300, joint=joint), seed=1)
        pieces = len(data.source_tokenizer)
        assert pieces > 1000
        assert f"tokenizer.vocabulary_size=300 became {pieces:,}: its characters need more" in data.notes
        assert not any(data.source_tokenizer.unknown(text) for text in han)
        assert len(data.target_tokenizer) == pieces if joint else len(data.target_tokenizer) < 300


@pytest.mark.parametrize("kind", ["word", "char"])
@pytest.mark.parametrize(("byte_fallback", "languages", "smallest"), [(True, [], 260), (False, ["en", "fr"], 6)])
def test_a_vocabulary_without_room_for_bytes_and_tags_is_refused_with_the_smallest(
    kind: Kind, byte_fallback: bool, languages: list[str], smallest: int
) -> None:
    def train(size: int) -> Tokenizer:
        settings = tokenizer_settings(kind, size, byte_fallback=byte_fallback)
        return train_tokenizer(["ein Haus", "zwei Hunde"], settings, languages)

    refused = f"^tokenizer.vocabulary_size={smallest - 1} has no room for .*; choose {smallest} or more$"
    with pytest.raises(ValueError, match=refused):
        train(smallest - 1)
    assert len(train(smallest)) == smallest


def test_characters_that_the_vocabulary_lacks_are_named_once() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.unknown("Der Hund 龘靐 läuft, 龘") == ["龘", "靐"]
    assert tokenizer.unknown("Der Hund läuft.") == []
    assert trained("word", 2000).unknown("Der Hund 龘靐 Quatsch.") == ["龘靐", "Quatsch"]
    assert trained("bpe", byte_fallback=True).unknown("龘靐") == []


def test_identity_normalization_keeps_what_nfkc_changes() -> None:
    texts = ["你好，世界。", "世界，你好！", "ＡＢＣ，你好"] * 20
    for normalization, expected in (("identity", "你好，ＡＢＣ"), ("nfkc", "你好,ABC"), ("nmt_nfkc", "你好,ABC")):
        tokenizer = train_tokenizer(texts, tokenizer_settings("char", 100, normalization=normalization))
        assert tokenizer.decode(tokenizer.encode("你好，ＡＢＣ")) == expected
