"""Training data other than the plain pairs: other segmentations of the same texts, and both directions."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.cases import others_long
from tests.data.corpora import BPE, TOY, settings, write
from tests.factories import tokenizer_settings
from transformer.data.batching import PairDataset, TokenBudgetSampler
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import EOS, PAD, UNK
from transformer.data.training_split import DrawnSplit, JoinedSplit, build_training_split


def test_bpe_dropout_cuts_each_epoch_anew_and_only_training(tmp_path: Path) -> None:
    prefixes = {split: str(TOY / "test") for split in ("train", "validation", "test")}
    of_toy = settings(tmp_path, max_length=100, batch_tokens=512, **prefixes)
    data, dropped = TranslationData(of_toy, BPE, seed=1), TranslationData(of_toy, BPE, seed=1)
    dropped.training_split = build_training_split(dropped, 0.2)
    texts = data.text_pairs("train")

    def cut(epoch: int) -> dict[int, tuple[list[int], list[int]]]:
        loader = dropped.loader("train")
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        rows = [
            row for b in loader for row in zip(b.indices.tolist(), b.source.tolist(), b.labels.tolist(), strict=True)
        ]
        return {i: tuple([id for id in side if id not in (PAD, EOS)] for side in sides) for i, *sides in rows}  # type: ignore[misc]

    first = cut(0)
    assert first == cut(0)
    assert first != cut(1)
    plain = [data.source_tokenizer.encode(source) for source, _ in texts]
    assert sum(len(first[i][0]) for i in first) > 1.1 * sum(map(len, plain))
    for index, (source, target) in first.items():  # the text is the same with any segmentation
        assert data.source_tokenizer.decode(source) == data.source_tokenizer.decode(plain[index])
        assert data.target_tokenizer.decode(target) == texts[index][1]
    with_dropout = [batch.source.tolist() for batch in dropped.loader("validation")]
    assert with_dropout == [batch.source.tolist() for batch in data.loader("validation")]


def test_a_pair_is_cut_by_its_number_and_epoch_whatever_was_asked_for_before(tmp_path: Path) -> None:
    words = ["eins zwei drei vier", "fünf sechs sieben acht", "neun zehn elf"] * 3
    write(tmp_path, "x.de", words), write(tmp_path, "x.en", words)
    data = TranslationData(settings(tmp_path, max_length=60), tokenizer_settings("bpe", 60), seed=1)
    one, other = build_training_split(data, 0.5), build_training_split(data, 0.5)
    one.lengths(0)  # keeps the pairs of epoch 0
    cut = [[[ids.tolist() for ids in split.pair(1, number)] for number in range(len(words))] for split in (one, other)]
    assert cut[0] == cut[1]
    assert cut[0] != [[ids.tolist() for ids in one.pair(0, number)] for number in range(len(words))]


@pytest.mark.parametrize("in_epoch", [4, 10, 13])
def test_drawn_pairs_all_come_before_any_comes_again_in_an_order_of_their_own(tmp_path: Path, in_epoch: int) -> None:
    words = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
    write(tmp_path, "x.de", words), write(tmp_path, "x.en", words)
    data = TranslationData(settings(tmp_path), tokenizer_settings("word", 60), seed=1)
    split = DrawnSplit(data.split("train"), in_epoch, [1])
    drawn = np.concatenate([split.drawn(epoch) for epoch in range(10)])
    rounds = drawn[: len(drawn) // 10 * 10].reshape(-1, 10)
    assert (np.sort(rounds) == np.arange(10)).all()
    assert len(set(map(tuple, rounds.tolist()))) == len(rounds)
    # Batches are made again for each epoch if its pairs differ.
    assert split.resampled_each_epoch == (in_epoch != 10)


def test_the_longest_pair_of_several_splits_is_that_of_any(tmp_path: Path) -> None:
    for name, words in (("x", "eins zwei"), ("y", "eins zwei drei vier")):
        write(tmp_path, f"{name}.de", [words]), write(tmp_path, f"{name}.en", [words])
    data = TranslationData(settings(tmp_path, test=str(tmp_path / "y")), tokenizer_settings("word", 60), seed=1)
    short, long = data.split("train"), data.split("test")
    for parts in ({"a": short, "b": long}, {"a": long, "b": short}):
        assert JoinedSplit(parts).longest == long.longest > short.longest


@pytest.mark.parametrize(("both", "world", "accumulated"), others_long([(True, 2, 3), (False, 1, 1)]))
def test_batches_of_bpe_dropout_are_made_by_the_lengths_of_their_epoch(
    tmp_path: Path, both: bool, world: int, accumulated: int
) -> None:
    prefixes = {split: str(TOY / "test") for split in ("train", "validation", "test")}
    data = TranslationData(
        settings(tmp_path, max_length=100, directions=["de-en", "en-de"] if both else [], **prefixes), BPE, seed=1
    )
    split = data.training_split = build_training_split(data, 0.2)
    dataset = PairDataset(split)
    dealt = [TokenBudgetSampler(split, 512, 1, True, rank, world, accumulated) for rank in range(world)]
    for epoch in (0, 1, 5):
        padded = real = 0
        indices = []
        for sampler in dealt:
            sampler.set_epoch(epoch)
            indices.append(list(sampler))
            for index in indices[-1]:
                batch = dataset[index]
                assert max(batch.source.numel(), batch.labels.numel()) <= 512
                padded += batch.source.numel() + batch.labels.numel()
                real += int((batch.source != PAD).sum() + (batch.labels != PAD).sum())
        assert real / padded > 0.8  # only 500 pairs
        assert {len(share) for share in indices} == {len(dealt[0])}  # in every epoch the number that Lightning got
        assert len(dealt[0]) % accumulated == 0
        assert sorted(int(pair) for share in indices for _, batch in share for pair in batch) == list(range(len(split)))
    resumed = TokenBudgetSampler(split, 512, 1, True, 0, world, accumulated)
    resumed.start_at(5, 4)
    assert len(resumed) == len(dealt[0])
    assert [batch.tolist() for _, batch in resumed] == [batch.tolist() for _, batch in indices[0][4:]]


def test_each_pair_of_a_small_corpus_is_asked_for_once(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["ein Haus"] * 3)
    write(tmp_path, "x.en", ["a house"] * 3)
    data = TranslationData(settings(tmp_path), tokenizer_settings("bpe", 35), seed=1)
    split = build_training_split(data, 0.5)
    assert [len(list(TokenBudgetSampler(split, 4, 1, True, 0, 1, accumulated))) for accumulated in (1, 3)] == [3, 3]


def test_bpe_dropout_keeps_what_would_become_too_long_or_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["ein Haus", "zwei Häuser"] * 20)
    write(tmp_path, "x.en", ["a house", "two houses"] * 20)
    bpe = tokenizer_settings("bpe", 40)
    longest = max(len(ids) for ids in TranslationData(settings(tmp_path), bpe, seed=1).split("train").source)
    data = TranslationData(settings(tmp_path, max_length=longest), bpe, seed=1)
    data.training_split = build_training_split(data, 0.9)
    assert all(batch.source.size(1) <= longest + 1 for batch in data.loader("train"))
    little = build_training_split(data, 0.3)
    assert max(side.max() for epoch in range(5) for side in little.lengths(epoch)) == longest
    unknown = data.source_tokenizer.encode("zwei Q")
    assert UNK in unknown
    assert data.source_tokenizer.sample_segmentation(unknown, 0.9, Random(1))[-2:] == unknown[-2:]


def test_words_and_characters_have_no_merges_to_drop(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["ein Haus"])
    write(tmp_path, "x.en", ["a house"])
    data = TranslationData(settings(tmp_path), tokenizer_settings("char", 100), seed=1)
    with pytest.raises(ValueError, match="bpe_dropout needs tokenizer=bpe or unigram, not char"):
        build_training_split(data, 0.1)


def test_both_directions_serve_every_pair_there_and_back_asked_for_by_tags(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["ein Haus", "zwei Hunde"])
    write(tmp_path, "x.en", ["a house", "two dogs"])
    tokenizer = tokenizer_settings("char", 100)
    data = TranslationData(settings(tmp_path, directions=["de-en", "en-de"], max_length=30), tokenizer, seed=1)
    data.training_split = build_training_split(data, 0.0)
    of_source, of_target = data.source_tokenizer, data.target_tokenizer
    assert of_source.encode("ein Haus") == [of_source.prefix[0], *of_target.encode("ein Haus")]
    there = of_source.piece(of_source.prefix[0])
    assert there == "<2en>"
    seen = set()
    for batch in data.loader("train"):
        assert batch.source.shape[1] * len(batch.source) <= data.settings.batch_tokens
        for source, labels in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            texts = [of_target.decode([id for id in ids if id != PAD]) for ids in (source[1:], labels)]
            seen.add((of_target.piece(source[0]), *texts))
    assert seen == {
        *(("<2en>", source, target) for source, target in data.text_pairs("train")),
        *(("<2de>", target, source) for source, target in data.text_pairs("train")),
    }
    split = data.examples("train")
    lengths = [(len(source), len(target)) for source, target in (split.pair(0, number) for number in range(len(split)))]
    assert lengths == list(zip(*(side.tolist() for side in split.lengths(epoch=0)), strict=True))
    for name, tag in (("validation", "<2en>"), ("validation.en-de", "<2de>")):
        [batch] = data.loader(name)
        assert {of_source.piece(row[0]) for row in batch.source.tolist()} == {tag}


def test_both_directions_need_one_vocabulary(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["ein Haus"])
    write(tmp_path, "x.en", ["a house"])
    apart = tokenizer_settings("char", 100, joint=False)
    data = TranslationData(settings(tmp_path, directions=["de-en", "en-de"]), apart, seed=1)
    with pytest.raises(ValueError, match=r"tokenizer\.joint=true"):
        build_training_split(data, 0.0)
