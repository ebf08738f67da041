"""A split on disk compared with the tokenizers' own ids, for any number of pairs encoded at a time."""

from pathlib import Path

import pytest

from tests.factories import tokenizer_settings
from transformer.data import encoded
from transformer.data.encoded import EncodedSplit, write_split
from transformer.data.tokenizer import Tokenizer, train_tokenizer

# At most four ids a side; the first id of the source is the tag of the target language.
PAIRS = [("a b c", "x y z x"), ("a", "x y z x y"), ("a b c a", "x"), ("", "x"), ("b", ""), ("c", "z"), ("b a", "y x")]
KEPT, TOO_LONG, EMPTY = [1, 6, 7], [2, 3], [4, 5]


class Recorded(Tokenizer):
    """Records how many texts it gets at a time."""

    def __init__(self, tokenizer: Tokenizer, tag: str | None) -> None:
        super().__init__(tokenizer.model, tokenizer.kind, tag)
        self.counts: list[int] = []

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        self.counts.append(len(texts))
        return super().encode_all(texts)


def tokenizers() -> tuple[Recorded, Recorded]:
    """One of the letters a, b, c after a tag, and one of x, y, z: equal ids mean different letters."""
    source = train_tokenizer(["a b c"] * 9, tokenizer_settings("word", 20), ["en"])
    target = train_tokenizer(["x y z"] * 9, tokenizer_settings("word", 20))
    return Recorded(source, "en"), Recorded(target, None)


@pytest.mark.parametrize("keep_all", [False, True])
@pytest.mark.parametrize(
    ("chunk", "characters", "counts"),
    [(7, 10_000_000, [7]), (3, 10_000_000, [3, 3, 1]), (10_000, 12, [1, 2, 4]), (1, 1, [1] * 7)],
)
def test_a_split_has_the_ids_of_its_pairs_however_many_are_encoded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, characters: int, counts: list[int], keep_all: bool
) -> None:
    monkeypatch.setattr(encoded, "CHUNK", chunk)
    monkeypatch.setattr(encoded, "MAX_CHARACTERS", characters)
    both, numbers = tokenizers(), [*range(1, 8)] if keep_all else KEPT
    write_split(tmp_path, iter(PAIRS), both, 4, keep_all)
    assert [tokenizer.counts for tokenizer in both] == [counts, counts]
    split = EncodedSplit(tmp_path)
    assert (split.numbers.tolist(), split.too_long.tolist(), split.empty.tolist()) == (numbers, TOO_LONG, EMPTY)
    assert [split.pair_number(0, index) for index in range(len(split))] == [str(number) for number in numbers]
    for index, number in enumerate(numbers):
        expected = [tokenizer.encode(text)[:4] for tokenizer, text in zip(both, PAIRS[number - 1], strict=True)]
        assert [side.tolist() for side in split.pair(0, index)] == expected


def test_a_sentence_longer_than_a_small_number_can_say_keeps_its_length(tmp_path: Path) -> None:
    write_split(tmp_path, [("a " * 40_000, "x")], tokenizers(), 50_000, keep_all=False)
    split = EncodedSplit(tmp_path)
    assert len(split.pair(0, 0)[0]) == split.longest == split.lengths(0)[0][0] == 40_001  # with its tag
