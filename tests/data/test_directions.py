"""Several directions in one corpus: the meaning of the settings, the files that are read, the pairs for training."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.corpora import settings, write
from tests.factories import composed, tokenizer_settings
from transformer.data.datamodule import TranslationData
from transformer.data.directions import choose_direction
from transformer.data.mmap import IntArray
from transformer.data.tokenizer import EOS, PAD
from transformer.data.training_split import DrawnSplit, Split, build_training_split, pairs_per_epoch

STAR = ["de-en", "en-de", "fr-en", "en-fr"]
TEXTS = {
    "de": ["ein Haus", "zwei Hunde", "drei Boote"],
    "en": ["a house", "two dogs", "three boats"],
    "fr": ["une maison", "deux chiens", "trois bateaux"],
}
CHARACTERS = tokenizer_settings("char", 200)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for language, lines in TEXTS.items():
        write(tmp_path, f"x.{language}", lines)
    return tmp_path


def data_of(folder: Path, **changes: Any) -> TranslationData:
    data = TranslationData(settings(folder, directions=STAR, max_length=40, **changes), CHARACTERS, seed=1)
    data.training_split = build_training_split(data, 0.0)
    return data


def served(data: TranslationData, epoch: int) -> list[tuple[str, str, str]]:
    """The tag, source and target of every pair of an epoch."""
    loader, tokenizer = data.loader("train"), data.source_tokenizer
    loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
    pairs = []
    for batch in loader:
        for sides in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            source, target = ([id for id in side if id not in (PAD, EOS)] for side in sides)
            pairs.append((tokenizer.piece(source[0]), tokenizer.decode(source[1:]), tokenizer.decode(target)))
    return pairs


def expected(*directions: str) -> Counter[tuple[str, str, str]]:
    """The expected pairs for training, computed only from the names of the directions."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for source, target in (direction.split("-") for direction in directions):
        counts.update((f"<2{target}>", *pair) for pair in zip(TEXTS[source], TEXTS[target], strict=True))
    return counts


def test_every_pair_comes_in_every_direction_with_the_tag_of_its_target(folder: Path) -> None:
    data = data_of(folder)
    assert Counter(served(data, 0)) == Counter(served(data, 1)) == expected(*STAR)
    training = data.examples("train")
    lines = [training.pair_number(0, number) for number in range(len(training))]
    assert lines == [f"{direction} {line}" for direction in STAR for line in (1, 2, 3)]


def test_every_split_has_a_name_in_every_direction(folder: Path) -> None:
    data = data_of(folder, extra_tests={"news": str(folder / "x")})
    others = [f".{direction}" for direction in STAR[1:]]
    for split in ("train", "validation", "test", "news"):
        assert data.names(split) == [split, *(f"{split}{other}" for other in others)]
    assert data.text_pairs("news.en-fr") == list(zip(TEXTS["en"], TEXTS["fr"], strict=True))
    assert [len(loader) for loader in data.test_dataloader()] == [1] * 8


def test_the_first_direction_is_the_one_that_the_languages_name(folder: Path) -> None:
    data = data_of(folder, source_language="en", target_language="fr")
    assert data.text_pairs("test") == list(zip(TEXTS["en"], TEXTS["fr"], strict=True))
    assert data.text_pairs("test.de-en") == list(zip(TEXTS["de"], TEXTS["en"], strict=True))
    assert data.settings.find_split("test.en-fr") == data.settings.find_split("test"), (
        "also by the name that other directions have"
    )
    of_yaml = composed("data.directions=[fr-en,en-fr]")["data"]
    assert (of_yaml["source_language"], of_yaml["target_language"]) == ("fr", "en")


def test_files_named_by_a_direction_come_before_those_of_a_language(folder: Path) -> None:
    write(folder, "x.fr-en.fr", ["un train"])
    write(folder, "x.fr-en.en", ["a train"])
    data = data_of(folder)
    assert data.text_pairs("train.fr-en") == [("un train", "a train")]
    assert data.text_pairs("train.en-fr") == [("a train", "un train")]
    assert data.text_pairs("train") == list(zip(TEXTS["de"], TEXTS["en"], strict=True))


def test_a_table_names_its_languages_in_the_first_line(folder: Path) -> None:
    rows = ["\t".join(texts) for texts in [TEXTS, *zip(*TEXTS.values(), strict=True)]]
    write(folder, "all.tsv", rows)
    table = str(folder / "all.tsv")
    assert Counter(served(data_of(folder, train=table), 0)) == expected(*STAR)


def test_the_vocabulary_learns_from_each_file_once(folder: Path) -> None:
    texts = Counter(data_of(folder)._learned_from((0, 1)))
    assert texts == Counter(text for lines in TEXTS.values() for text in lines)


def test_a_temperature_serves_directions_of_few_pairs_more_often(folder: Path) -> None:
    for side, lines in (("fr", ["un train"]), ("en", ["a train"])):
        write(folder, f"x.fr-en.{side}", lines)
    epochs = [Counter(served(data_of(folder, direction_temperature=1000.0), epoch)) for epoch in range(4)]
    plain = Counter(served(data_of(folder), 0))
    assert plain["<2en>", "un train", "a train"] == 1
    for epoch in epochs:
        assert epoch.total() == plain.total() == 8
        assert epoch["<2en>", "un train", "a train"] == epoch["<2fr>", "a train", "un train"] == 2
    seen = sum(epochs, Counter[tuple[str, str, str]]())
    german = [seen[pair] for pair in expected("de-en", "en-de")]
    assert max(german) - min(german) <= 1  # no pair twice before every other came once


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8), st.floats(1, 100))
def test_shares_lie_between_those_of_the_pairs_and_equal_ones(pairs: list[int], temperature: float) -> None:
    assert pairs_per_epoch(pairs, 1.0) == pairs
    got, total = pairs_per_epoch(pairs, temperature), sum(pairs)
    for count, share in zip(pairs, got, strict=True):
        low, high = sorted((count, total / len(pairs)))
        if len(pairs) == 2:
            assert low - 1 <= share <= high + 1
    assert abs(sum(got) - total) <= len(pairs)
    assert sorted(got) == [share for _, share in sorted(zip(pairs, got, strict=True))]


class Numbered(Split):
    """Pairs that each have their own number."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def lengths(self, epoch: int) -> tuple[Any, Any]:
        return np.arange(self.size), np.arange(self.size)

    def pair(self, epoch: int, number: int) -> tuple[IntArray, IntArray]:
        return np.array([number]), np.array([number])

    def pair_number(self, epoch: int, number: int) -> str:
        return str(number)


@given(st.integers(1, 30), st.integers(1, 70), st.integers(0, 5))
def test_drawn_pairs_come_again_only_after_all_others(size: int, in_epoch: int, seed: int) -> None:
    drawn = DrawnSplit(Numbered(size), in_epoch, [seed])
    order = [int(drawn.pair(epoch, number)[0][0]) for epoch in range(5) for number in range(in_epoch)]
    for start in range(0, len(order) - size + 1, size):
        assert sorted(order[start : start + size]) == list(range(size))
    assert drawn.lengths(3)[0].tolist() == order[3 * in_epoch : 4 * in_epoch]


def test_languages_choose_the_first_learned_direction_or_an_unlearned_one() -> None:
    learned = [("de", "en"), ("en", "de"), ("en", "fr")]
    assert choose_direction(learned, None, None) == ("de", "en")
    assert choose_direction(learned, None, "fr") == ("en", "fr")
    assert choose_direction(learned, "en", None) == ("en", "de")
    assert choose_direction(learned, "de", "fr") == ("de", "fr")  # zero-shot
    for source, target in (("fr", "en"), ("xx", None), (None, "xx"), ("de", "de")):
        with pytest.raises(ValueError, match=r"translates de → en, en → de, en → fr, not (from|to)"):
            choose_direction(learned, source, target)


def test_only_the_message_for_the_way_back_says_how_to_train_it() -> None:
    cases = (("en", "de", True), (None, "de", True), ("fr", "en", False), (None, "fr", False))
    for source, target, is_reported in cases:
        with pytest.raises(ValueError, match="the checkpoint translates de → en, not") as caught:
            choose_direction([("de", "en")], source, target)
        assert ("data.directions=[de-en,en-de]" in str(caught.value)) == is_reported


@pytest.mark.parametrize("first", [[], ["de\ten"], ["EN\tGerman"], ["id\tde\ten"]])
@pytest.mark.parametrize("columns", [None, [1, 2]])
def test_a_table_is_read_in_both_directions_named_or_not(
    tmp_path: Path, first: list[str], columns: list[int] | None
) -> None:
    lines = ["ein Haus\ta house", "zwei Hunde\ttwo dogs"]
    if first and first[0].startswith("EN"):
        lines = ["\t".join(reversed(line.split("\t"))) for line in lines]
    if first and first[0].startswith("id"):
        lines = [f"{number}\t{line}" for number, line in enumerate(lines)]
    table = str(write(tmp_path, "x.tsv", [*first, *lines]))
    parts = {"train": table, "validation": table, "test": table}
    both = settings(tmp_path, directions=["de-en", "en-de"], columns=columns, **parts)
    pairs = [("ein Haus", "a house"), ("zwei Hunde", "two dogs")]
    assert [*both.read("train")] == pairs
    assert [*both.read("train.en-de")] == [*both.in_direction(("en", "de")).read("test")] == [p[::-1] for p in pairs]
    assert both.digest("train") != both.digest("train.en-de")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"directions": ["de"]}, r"data\.directions: de must be two languages with one '-' between them"),
        ({"directions": ["zh-Hans-en"]}, r"write _ in a language's own name"),
        ({"directions": ["de-de"]}, r"de-de must be two languages"),
        ({"directions": ["de-en", "de-en"]}, r"\[de-en,de-en\] names a direction twice"),
        ({"directions": ["fr-en"]}, r"does not have de-en, the direction of data\.source_language"),
        ({"direction_temperature": 2.0}, r"direction_temperature is for several data\.directions"),
        ({"directions": STAR, "columns": [1, 2]}, r"data\.columns is for two languages, .* has 3"),
        ({"directions": STAR, "extra_tests": {"test.fr-en": "x"}}, r"this name is taken"),
        ({"extra_tests": {"validation.de-en": "x"}}, r"validation\.de-en: this name is taken"),
        ({"extra_tests": {"news": "x", "news.de-en": "y"}}, r"news\.de-en: this name is taken"),
        ({"directions": STAR, "extra_tests": {"news": "x", "news.fr-en": "y"}}, r"news\.fr-en: this name is taken"),
    ],
)
def test_wrong_directions_are_refused(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings(tmp_path, **changes)
