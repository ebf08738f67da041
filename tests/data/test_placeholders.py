"""Text that must stay in a translation: a table of strings, with placeholders and a model with random weights."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.data.corpora import TOY
from tests.factories import small_model, tokenizer_settings
from transformer import Translator
from transformer.data.placeholders import PLACEHOLDERS, Keeper, read_glossary, restore
from transformer.data.tokenizer import UNK, Tokenizer, train_tokenizer
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM

# Strings that translators often damage, one on each line, at the places that they have in real texts.
KEPT = (Path(__file__).parent / "kept_strings.txt").read_text(encoding="utf-8").splitlines()
FRAMES = ["Siehe {} heute.", "{}", "Der Hund ({}), sagt er: {}!", "Das Haus {} und {} sind klein, {} nicht."]
LINES = (TOY / "test.de").read_text(encoding="utf-8").splitlines()
TEXTS = [*[frame.replace("{}", "so") for frame in FRAMES], "Das Haus ist klein.", "Der kleine Hund sagt nichts."]


def tokenizer(kind: str = "bpe", placeholders: bool = True) -> Tokenizer:
    size = {"bpe": 200, "unigram": 200, "char": 80}[kind] + len(PLACEHOLDERS) * placeholders
    return train_tokenizer(TEXTS + LINES, tokenizer_settings(kind, size), placeholders=placeholders)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(1)
    both = tokenizer()
    model = small_model(source_vocab_size=len(both), target_vocab_size=len(both), max_length=128)
    return Translator(model, (both, both), ("de", "en"))


def test_the_table_has_two_hundred_different_strings() -> None:
    assert len(KEPT) == len(set(KEPT)) == 200


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_every_string_of_the_table_stays_exactly_as_often_as_its_source_has_it(
    translator: Translator, method: str
) -> None:
    search = replace(BEAM, method=method, beam=2, length_ratio=1.0, length_extra=3)
    frames = [FRAMES[number % len(FRAMES)] for number in range(len(KEPT))]
    sources = [frame.replace("{}", kept) for frame, kept in zip(frames, KEPT, strict=True)]
    for source, kept, translation in zip(sources, KEPT, translator.translate(sources, search), strict=True):
        assert translation.count(kept) == source.count(kept), (source, translation)


@given(st.lists(st.one_of(st.sampled_from([*KEPT, *PLACEHOLDERS, "Hund", ",", "Ä"]), st.text(max_size=4)), max_size=40))
def test_protected_texts_are_restored_letter_by_letter(parts: list[str]) -> None:
    text = " ".join("".join(parts).split(" "))
    for keeper in (Keeper.of(), Keeper.of(keep=r"[A-ZÄ]+\d?")):
        protected, kept = keeper.protect(text)
        # Spaces beside the string in the text are distinguished from inserted ones.
        assert restore(protected, kept) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_a_placeholder_is_one_piece_wherever_it_stands_and_not_for_older_vocabularies(kind: str) -> None:
    later = tokenizer(kind, placeholders=False).with_tags([], placeholders=True)
    for one in (tokenizer(kind), later):
        for number, name in enumerate(PLACEHOLDERS):
            for text in (f"Hund {name}.", f"{name}Hund", f"{name}{name}", name):
                assert one.encode(text).count(one.placeholders[number]) == text.count(name)
                assert one.decode(one.encode(text)) == text
    assert tokenizer(kind, placeholders=False).placeholders == []
    assert UNK not in later.placeholders
    assert [later.encode(text) for text in TEXTS] == [
        tokenizer(kind, placeholders=False).encode(text) for text in TEXTS
    ]


def test_many_kept_strings_of_a_line_all_stay(translator: Translator) -> None:
    numbers = [str(number) for number in range(1000, 1030)]
    for split in ("never", "sentences"):
        [found] = translator.translate(
            [f"Das sind {' und '.join(numbers)}. Der Hund {numbers[0]}x."], split_lines=split
        )
        assert sorted(re.findall(r"\d{4}", found)) == sorted([*numbers, numbers[0]])


def test_terms_of_a_glossary_are_used_as_whole_words_the_longest_first(translator: Translator) -> None:
    terms = {"hund": "hound", "Haus": "dwelling", "kleines Haus": "cottage"}
    search = SearchSettings(method="greedy", length_ratio=1.0, length_extra=2)
    for source, used in {
        "Hund und hund": ["hound", "hound"],
        "Das Haus, kleines  Haus": ["cottage", "dwelling"],
        "Haushund, haus": [],
    }.items():
        found = translator.keeping(glossary=terms).translate(source, search).lower()
        assert sorted(re.findall("hound|dwelling|cottage", found)) == used, found
        assert not re.search("hound|dwelling|cottage", translator.translate(source, search).lower())


def test_a_term_is_capitalized_where_the_translation_begins() -> None:
    keeper = Keeper.of(glossary={"hund": "hound"})
    _, kept = keeper.protect("Der Hund")
    assert restore("⟦1⟧ runs", kept) == "Hound runs"
    assert restore("the ⟦1⟧ runs", kept) == "the hound runs"


def test_a_glossary_is_a_table_that_may_name_its_languages(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("Hund\thound\n\nNeu York\tNew York\n", encoding="utf-8")
    assert read_glossary(tmp_path / "g.tsv", ("de", "en")) == {"Hund": "hound", "Neu York": "New York"}
    (tmp_path / "g.tsv").write_text("en\tde\nhound\tHund\n", encoding="utf-8")
    assert read_glossary(tmp_path / "g.tsv", ("de", "en")) == {"Hund": "hound"}
    (tmp_path / "g.tsv").write_text("Hund\thound\nKatze\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        read_glossary(tmp_path / "g.tsv", ("de", "en"))


def test_what_cannot_be_kept_is_refused(translator: Translator) -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        translator.keeping(keep="(")
    with pytest.raises(ValueError, match="neither may be empty"):
        translator.keeping(glossary={"Hund": " "})
    plain = tokenizer(placeholders=False)
    model = small_model(source_vocab_size=len(plain), target_vocab_size=len(plain))
    with pytest.raises(ValueError, match=r"data\.placeholders"):
        Translator(model, (plain, plain), ("de", "en")).keeping(keep="x")
