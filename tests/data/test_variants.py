"""Variants of training pairs: both sides keep the same placeholders, and a variant has the meaning of its pair."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.corpora import BPE, TOY, settings
from tests.factories import data_settings
from transformer.data.datamodule import TranslationData
from transformer.data.placeholders import ANY_PLACEHOLDER, PLACEHOLDERS
from transformer.data.splitting import comparable, notes_of_cut, with_splits
from transformer.data.text_files import read_lines
from transformer.data.training_split import build_training_split
from transformer.data.variants import read_variants
from transformer.data.words import words


def of_toy(folder: Path, **changes: object):  # type: ignore[no-untyped-def]
    prefixes = {split: str(TOY / "test") for split in ("train", "validation", "test")}
    return settings(folder, **({"max_length": 100, "batch_tokens": 512} | prefixes | changes))


def test_placeholders_stand_for_words_that_translate_each_other(tmp_path: Path) -> None:
    corpus = of_toy(tmp_path, placeholders=1.0)
    texts = {side for pair in corpus.read("train") for side in pair}
    found = list(read_variants(corpus))
    assert len(found) > 100
    for pair in found:
        names = [Counter(ANY_PLACEHOLDER.findall(side)) for side in pair]
        assert names[0] == names[1]
        assert set(names[0].values()) == {1}
        assert not texts & set(pair)
    assert {name for pair in found for name in ANY_PLACEHOLDER.findall(pair[0])} == set(PLACEHOLDERS)


def test_what_people_type_has_the_words_of_its_pair(tmp_path: Path) -> None:
    corpus = of_toy(tmp_path, robust=1.0)
    pairs = list(corpus.read("train"))
    whole = {tuple(map(tuple, map(words, pair))) for pair in pairs}
    found = list(read_variants(corpus))
    single = [pair for pair in found if len(pair[0].split()) == 1]
    assert 0.1 < len(single) / len(found) < 0.4
    for source, target in found:
        assert (source, target) not in pairs
        if (source, target) not in single:
            assert tuple(map(tuple, map(words, (source, target)))) in whole
            # In lower case, or without the final mark on both sides.
            assert source == source.lower() or source[-1].isalnum() == target[-1].isalnum()
    # A single word comes from a pair that has the word and its translation.
    sides = [[set(words(side)) for side in pair] for pair in pairs]
    for word, translation in single[:50]:
        assert any(set(words(word)) <= source and set(words(translation)) <= target for source, target in sides)


def test_variants_are_the_same_in_every_run_and_come_beside_all_pairs(tmp_path: Path) -> None:
    corpus = of_toy(tmp_path, placeholders=0.3, robust=0.3)
    first = list(read_variants(corpus))
    assert first == list(read_variants(corpus))
    pairs = len(list(corpus.read("train")))
    assert 0.3 * pairs < len(first) < 0.7 * pairs
    data = TranslationData(corpus, BPE, seed=1)
    split = build_training_split(data, 0.0)
    assert len(split) == pairs + len(first)
    written = [data.source_tokenizer.decode(split.pair(0, pairs + number)[0].tolist()) for number in range(len(first))]
    assert written == [" ".join(source.split()) for source, _ in first]
    # Other segmentations do not cut placeholders.
    resampled = build_training_split(TranslationData(corpus, BPE, seed=1), 0.9)
    again = [resampled.pair(0, pairs + number)[0].tolist() for number in range(len(first))]
    assert [data.source_tokenizer.decode(ids) for ids in again] == written
    assert [ANY_PLACEHOLDER.findall(text) for text in written] == [
        [data.source_tokenizer.piece(id) for id in ids if id in data.source_tokenizer.placeholders] for ids in again
    ]


def test_no_variants_of_text_without_spaces_or_of_nothing_to_vary(tmp_path: Path) -> None:
    for language, line in (("de", "我吃一个苹果。"), ("en", "私はりんごを食べる。")):
        (tmp_path / f"x.{language}").write_text(f"{line}\n" * 9, encoding="utf-8")
    corpus = settings(tmp_path, placeholders=1.0, robust=1.0)
    assert all("⟦" not in source for source, _ in read_variants(corpus))


@pytest.mark.parametrize("directions", [[], ["de-en", "en-de"]])
def test_training_pairs_with_a_sentence_of_the_tests_are_left_out_and_counted(
    tmp_path: Path, directions: list[str]
) -> None:
    train, test = TOY / "train", TOY / "test"
    for language in ("de", "en"):
        lines = (TOY / f"train.{language}").read_text(encoding="utf-8").splitlines()[:300]
        held_out = [line.upper().rstrip(".") for line in lines[:20]] if language == "de" else ["other"] * 20
        (tmp_path / f"t.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / f"h.{language}").write_text("\n".join(held_out) + "\n", encoding="utf-8")
    given = data_settings(
        train=str(tmp_path / "t"),
        validation=str(test),
        test=str(test),
        extra_tests={"held": str(tmp_path / "h")},
        directions=directions,
        cache=str(tmp_path / "cache"),
        remove_held_out=True,
    )
    corpus = with_splits(given)
    kept, left_out = list(corpus.read("train")), list(read_lines(Path(str(corpus.train)).with_name("left_out.de")))
    assert len(kept) + len(left_out) == 300
    assert len(left_out) >= 20
    held = {comparable(text) for split in ("test", "held") for pair in given.read(split) for text in pair}
    assert not any(comparable(text) in held for pair in kept for text in pair)
    assert notes_of_cut(corpus, given)[-1].startswith(f"{len(left_out)} training pairs")
    assert replace(given, remove_held_out=False).train == str(tmp_path / "t") != str(train)
