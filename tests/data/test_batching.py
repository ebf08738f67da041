"""From files to batches: no pair is lost or repeated, little padding, and the same for any number of processes."""

import pickle
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.data.corpora import BPE, TOY, settings, write
from tests.factories import data_settings, small_model, tokenizer_settings
from transformer.data.batching import (
    PairDataset,
    TokenBudgetSampler,
    batches_by_length,
    inputs_and_labels,
    length_buckets,
    make_batches,
    padded_length,
)
from transformer.data.datamodule import TranslationData
from transformer.data.encoded import EncodedSplit, Split
from transformer.data.gpu_dataset import GPUPairDataset
from transformer.data.mmap import MemoryMappedIds, MemoryMappedIdsWriter
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.files import cached_folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TranslationData:
    cache = tmp_path_factory.mktemp("cache")
    prefixes = {split: str(TOY / "test") for split in ("train", "validation", "test")}
    return TranslationData(settings(TOY, cache=str(cache), max_length=100, batch_tokens=512, **prefixes), BPE, seed=1)


def samplers(split: EncodedSplit, world: int, epoch: int = 0) -> list[list[list[int]]]:
    dealt = []
    for rank in range(world):
        sampler = TokenBudgetSampler(split, 512, seed=1, shuffle=True, rank=rank, world_size=world)
        sampler.set_epoch(epoch)
        batches = [batch.tolist() for at, batch in sampler if at == epoch]
        assert len(sampler) == len(batches)
        dealt.append(batches)
    return dealt


@pytest.mark.parametrize(("world", "accumulated"), [(1, 4), (2, 3), (3, 5)])
def test_every_update_of_an_epoch_has_equally_many_batches(data: TranslationData, world: int, accumulated: int) -> None:
    split = data.split("train")
    dealt = [list(TokenBudgetSampler(split, 512, 1, True, rank, world, accumulated)) for rank in range(world)]
    assert {len(batches) % accumulated for batches in dealt} == {0}
    assert Counter(int(pair) for batches in dealt for _, batch in batches for pair in batch) == Counter(range(500))


def test_a_split_goes_to_another_process_as_its_place_not_as_a_copy_of_its_ids(data: TranslationData) -> None:
    split = data.split("train")
    sent = pickle.dumps(split)
    assert len(sent) < 500 < len(split.source.ids)
    received = pickle.loads(sent)
    assert len(received) == len(split)
    for one, other in zip(received.pair(0, 7), split.pair(0, 7), strict=True):
        assert one.tolist() == other.tolist()


class ResegmentedSplit(Split):
    """Pairs with other lengths in every epoch except the first."""

    resampled_each_epoch = True

    def __init__(self, first: list[int], later: list[int]) -> None:
        self.first, self.later = first, later

    def __len__(self) -> int:
        return len(self.first)

    def lengths(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array(self.later if epoch else self.first)
        return lengths, lengths

    def pair(self, epoch: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        ids = np.full(self.lengths(epoch)[0][number], EOS)
        return ids, ids

    def pair_number(self, epoch: int, number: int) -> str:
        return str(number + 1)


@pytest.mark.parametrize(
    ("split", "tokens", "batches", "lost"),
    [
        # Four batches in the first epoch, five in the others: one of these, a single pair, is left out.
        (ResegmentedSplit([4, 4, 9, 9, 9], [8, 8, 9, 9, 9]), 10, 4, 1),
        # 100 batches of ten pairs, then 101; the last one has longer pairs, for which 2 % more have room.
        (ResegmentedSplit([9] * 1000, [9] * 980 + [10] * 20), 100, 102, 0),
    ],
)
def test_an_epoch_of_more_batches_has_as_many_as_the_first_and_loses_hardly_a_pair(
    split: Split, tokens: int, batches: int, lost: int
) -> None:
    sampler = TokenBudgetSampler(split, tokens, 1, True, accumulate=2)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        dealt = [batch.tolist() for _, batch in sampler]
        pairs = [pair for batch in dealt for pair in batch]
        assert len(dealt) == len(sampler) == batches
        assert len(pairs) == len(set(pairs)) == len(split) - (lost if epoch else 0)


def test_a_resumed_epoch_leaves_out_what_lies_behind_and_the_next_is_whole(data: TranslationData) -> None:
    split = data.split("train")
    sampler = TokenBudgetSampler(split, 512, 1, True)
    sampler.start_at(3, 5)
    assert [batch.tolist() for _, batch in sampler] == samplers(split, 1, epoch=3)[0][5:]
    assert len(sampler) == len(samplers(split, 1, epoch=3)[0])
    sampler.set_epoch(4)
    assert [batch.tolist() for _, batch in sampler] == samplers(split, 1, epoch=4)[0]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_every_process_gets_equally_many_batches_and_every_pair_comes_once(data: TranslationData, world: int) -> None:
    dealt = samplers(data.split("train"), world)
    assert len({len(batches) for batches in dealt}) == 1
    counts = Counter(pair for batches in dealt for batch in batches for pair in batch)
    assert counts == Counter(range(500))


def test_batches_keep_to_the_budget_and_waste_little(data: TranslationData) -> None:
    dataset, padded, real = PairDataset(data.split("train")), 0, 0
    [batches] = samplers(data.split("train"), 1)
    for indices in batches:
        batch = dataset[0, np.array(indices)]
        assert max(batch.source.numel(), batch.labels.numel()) <= 512
        padded += batch.source.numel() + batch.labels.numel()
        real += int((batch.source != PAD).sum() + (batch.labels != PAD).sum())
    # With only 500 pairs; the whole corpus wastes less.
    assert real / padded > 0.85


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("tokens", [1, 16, 10_000])
def test_sentences_to_translate_are_each_in_one_batch_and_batches_within_the_bound(tokens: int, workers: int) -> None:
    for count in range(40):
        lengths = [number % 7 + 1 for number in range(count)]
        batches = batches_by_length(lengths, tokens, workers)
        assert sorted(index for batch in batches for index in batch) == list(range(count))
        assert [lengths[index] for batch in batches for index in batch] == sorted(lengths, reverse=True)
        for batch in batches:
            assert len(batch) == 1 or len(batch) * (lengths[batch[0]] + 1) <= tokens
        # Not more rounds than without regard to the workers.
        rounds = -(-len(batches_by_length(lengths, tokens)) // workers)
        assert len(batches) <= rounds * workers


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
def test_workers_that_translate_batches_end_at_nearly_the_same_time(workers: int) -> None:
    random = np.random.default_rng(1)
    for count in (256, 1000):
        lengths = random.poisson(13, count).tolist()
        tokens = [len(batch) * (lengths[batch[0]] + 1) for batch in batches_by_length(lengths, 2048, workers)]
        busy = [0] * workers
        for of_batch in tokens:
            busy[busy.index(min(busy))] += of_batch
        assert max(busy) <= 1.1 * sum(tokens) / workers


@pytest.mark.parametrize("longest", [32_766, 32_767], ids=["small type", "large type"])
def test_ids_written_part_by_part_are_read_again_and_their_lengths_do_not_overflow(
    tmp_path: Path, longest: int
) -> None:
    sequences = [[5] * longest, [], [70_000, 3], [7], [8, 9] * 20]
    writer = MemoryMappedIdsWriter(tmp_path, "x", largest=70_000, longest=longest)
    for part in (sequences[:2], [], sequences[2:]):
        writer.append(part)
    writer.close()
    read = MemoryMappedIds(tmp_path, "x")
    assert [read[number].tolist() for number in range(len(read))] == sequences
    lengths, wide = read.lengths, np.array([len(ids) for ids in sequences])
    for one, other in zip(
        make_batches(lengths, lengths[::-1], 40_000, np.random.default_rng(1)),
        make_batches(wide, wide[::-1], 40_000, np.random.default_rng(1)),
        strict=True,
    ):
        assert one.tolist() == other.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {f"x.{part}.npy" for part in ("ids", "offsets", "lengths")}


def test_a_large_corpus_wastes_little_on_padding_in_the_same_shapes_each_epoch() -> None:
    random = np.random.default_rng(1)
    # Like Multi30k: about 12 tokens, and a few more or fewer on the other side.
    source = 3 + random.poisson(10, 30_000)
    target = np.maximum(1, source + np.rint(random.normal(0, 2, 30_000)).astype(int))
    shapes = []
    for epoch in range(2):
        batches = make_batches(source, target, 4096, np.random.default_rng(epoch))
        for side in (source, target):
            assert sum(side[batch].sum() for batch in batches) / sum(len(b) * side[b].max() for b in batches) > 0.96
        shapes.append(sorted((len(batch), source[batch].max(), target[batch].max()) for batch in batches))
    assert shapes[0] == shapes[1]


def test_length_buckets_are_four_for_each_doubling_up_to_the_longest() -> None:
    assert length_buckets(64).tolist() == [*range(1, 8), 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert length_buckets(101).tolist()[-3:] == [80, 96, 101]
    for longest in (1, 2, 9, 100, 1001):
        buckets = length_buckets(longest)
        for length in range(1, longest + 1):
            padded = padded_length(length, buckets)
            assert padded_length(length, None) == length <= padded <= min(longest, 1.25 * length)
            assert padded_length(padded, buckets) == padded


@pytest.mark.parametrize("tokens", [1024, 4096])
def test_few_lengths_make_few_shapes_and_waste_little_more(tokens: int) -> None:
    random = np.random.default_rng(1)
    source = 3 + random.poisson(10, 30_000)
    target = np.maximum(1, source + np.rint(random.normal(0, 2, 30_000)).astype(int))
    counts, shares = [], []
    for buckets in (None, length_buckets(int(max(source.max(), target.max())) + 1)):
        batches = make_batches(source, target, tokens, np.random.default_rng(1), buckets)
        assert sorted(np.concatenate(batches)) == list(range(30_000))
        widths = [
            [padded_length(int(side[batch].max()) + 1, buckets) for side in (source, target)] for batch in batches
        ]
        assert all(len(batch) * max(width) <= tokens for batch, width in zip(batches, widths, strict=True))
        counts.append(len({(len(batch), *width) for batch, width in zip(batches, widths, strict=True)}))
        padded = sum(len(batch) * sum(width) for batch, width in zip(batches, widths, strict=True))
        shares.append((source.sum() + target.sum() + 60_000) / padded)
    assert counts[1] < counts[0] / 3
    assert shares[1] > shares[0] - 0.1


@pytest.mark.parametrize("tokens", [1, 40, 1000])
def test_a_batch_ends_where_one_more_pair_would_exceed_the_budget(tokens: int) -> None:
    random = np.random.default_rng(2)
    source, target = random.integers(1, 60, (2, 300))
    batches = make_batches(source, target, tokens, random)
    assert sorted(np.concatenate(batches)) == list(range(300))
    widths = [np.maximum(source, target)[batch] + 1 for batch in batches]  # with the end symbol
    for width, following in pairwise(widths):
        assert len(width) == 1 or len(width) * max(width) <= tokens
        assert (len(width) + 1) * following[0] > tokens


def test_few_lengths_only_add_padding_that_changes_no_loss(data: TranslationData) -> None:
    split = data.split("train")
    exact, few = PairDataset(split), PairDataset(split, length_buckets(split.longest + 1))
    model = small_model(source_vocab_size=len(data.source_tokenizer), target_vocab_size=len(data.target_tokenizer))
    [batches] = samplers(split, 1)
    more = 0
    for numbers in batches[:10]:
        plain, padded = exact[0, np.array(numbers)], few[0, np.array(numbers)]
        for ours, theirs in (
            (plain.source, padded.source),
            (plain.inputs, padded.inputs),
            (plain.labels, padded.labels),
        ):
            width = ours.size(1)
            assert torch.equal(theirs[:, :width], ours)
            assert (theirs[:, width:] == PAD).all()
            assert theirs.size(1) in few.buckets
            more += theirs.size(1) - width
        losses = []
        for batch in (plain, padded):
            logits = model(batch.source, batch.inputs, batch.source_visible)
            losses.append(functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD))
        torch.testing.assert_close(*losses)
    assert more


@pytest.mark.parametrize("few", [False, True])
def test_batches_gathered_on_a_device_are_those_made_on_the_cpu(data: TranslationData, few: bool) -> None:
    split = data.split("train")
    buckets = length_buckets(split.longest + 1) if few else None
    made, gathered = PairDataset(split, buckets), GPUPairDataset(split, torch.device("cpu"), buckets)
    [batches] = samplers(split, 1)
    alone = [[number] for number in (0, len(split) - 1)]
    for numbers in [*batches, *alone]:
        for ours, theirs in zip(gathered[0, np.array(numbers)], made[0, np.array(numbers)], strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or torch.equal(ours, theirs)


def test_an_epoch_has_its_own_order_and_repeats_by_seed(data: TranslationData) -> None:
    split = data.split("train")
    assert samplers(split, 1, epoch=3) == samplers(split, 1, epoch=3)
    assert samplers(split, 1, epoch=3) != samplers(split, 1, epoch=4)
    of_seeds = [[batch.tolist() for _, batch in TokenBudgetSampler(split, 512, seed, shuffle=True)] for seed in (1, 2)]
    assert of_seeds[0] != of_seeds[1]


def test_pairs_of_like_length_meet_others_in_each_epoch(data: TranslationData) -> None:
    [one], [other] = (samplers(data.split("train"), 1, epoch) for epoch in (3, 4))
    assert len(set(map(frozenset, one)) & set(map(frozenset, other))) < len(one) / 2


def test_batches_that_are_not_shuffled_come_from_short_to_long(data: TranslationData) -> None:
    split = data.split("train")
    longest = np.maximum(*split.lengths(0))
    widths = [longest[batch].max() for _, batch in TokenBudgetSampler(split, 512, 1, shuffle=False)]
    assert widths == sorted(widths) != [longest[batch].max() for _, batch in TokenBudgetSampler(split, 512, 1, True)]


def test_a_batch_holds_the_texts_ids_between_begin_and_end(data: TranslationData) -> None:
    batch = PairDataset(data.split("test"))[0, np.array([4, 9])]
    texts, targets = data.text_pairs("test"), []
    for row, index in enumerate(batch.indices.tolist()):
        source, target = (
            tokenizer.encode(text)
            for tokenizer, text in zip((data.source_tokenizer, data.target_tokenizer), texts[index], strict=True)
        )
        assert [id for id in batch.source[row].tolist() if id != PAD] == [*source, EOS]
        assert [id for id in batch.inputs[row].tolist() if id != PAD] == [BOS, *target]
        assert [id for id in batch.labels[row].tolist() if id != PAD] == [*target, EOS]
        targets.append(target)
    for made, expected in zip(inputs_and_labels(targets), (batch.inputs, batch.labels), strict=True):
        assert torch.equal(made, expected)
    assert batch.source_visible is not None
    assert (batch.source_visible == (batch.source != PAD)).all()
    assert PairDataset(data.split("test"))[0, np.array([4])].source_visible is None


def test_long_and_empty_pairs_are_left_out_of_training_counted_and_named(tmp_path: Path) -> None:
    short, long = "ein Haus", "ein Haus " * 30
    write(tmp_path, "x.de", [short, long, "", short, "Haus"])
    write(tmp_path, "x.en", ["a house", "a house", "a house", "", "house"])
    tokenizer = tokenizer_settings("char", 100)
    data = TranslationData(settings(tmp_path, max_length=12), tokenizer, seed=1)
    train, test = data.split("train"), data.split("test")
    assert train.numbers.tolist() == [1, 5]
    assert (train.too_long.tolist(), train.empty.tolist()) == ([2], [3, 4])
    # Scored splits keep every line, cut to the limit.
    assert test.numbers.tolist() == [1, 2, 3, 4, 5]
    assert test.source.lengths.max() == 12


def test_a_corpus_is_prepared_once_and_again_when_it_changes(tmp_path: Path) -> None:
    write(tmp_path, "x.de", ["ein Haus", "zwei Hunde"])
    write(tmp_path, "x.en", ["a house", "two dogs"])
    tokenizer = tokenizer_settings("char", 100)

    def folders() -> set[str]:
        TranslationData(settings(tmp_path), tokenizer, seed=1).split("train")
        return {path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()}

    first = folders()
    assert folders() == first
    write(tmp_path, "x.en", ["a house", "two cats"])
    assert len(folders()) == len(first) + 2


def test_other_columns_of_a_table_are_prepared_anew(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["ein Haus\ta house\thouse", "zwei Hunde\ttwo dogs\tdogs"])
    table = dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.tsv"))
    for columns, text in (([1, 2], "a house"), ([1, 3], "house")):
        corpus = settings(tmp_path, **table, columns=columns)
        data = TranslationData(corpus, tokenizer_settings("char", 100), seed=1)
        assert data.target_tokenizer.decode(data.split("test").target[0].tolist()) == text


def test_preparing_that_fails_leaves_nothing_half_made(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_text("", encoding="utf-8")
        raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        cached_folder(tmp_path / "key", make)
    left = [] if sys.platform == "win32" else ["key.lock"]
    assert [path.name for path in tmp_path.iterdir()] == left


def test_fewer_sentences_than_processes_are_refused(data: TranslationData) -> None:
    with pytest.raises(ValueError, match="500 sentences cannot be distributed to 501 processes"):
        TokenBudgetSampler(data.split("test"), 512, 1, False, 0, 501)


def test_swapping_the_languages_swaps_the_sides(data: TranslationData, tmp_path: Path) -> None:
    plain = data.settings.__dict__ | {"source_language": "en", "target_language": "de", "cache": str(tmp_path)}
    swapped = TranslationData(data_settings(**plain), BPE, seed=1)
    assert swapped.text_pairs("test") == [(target, source) for source, target in data.text_pairs("test")]
