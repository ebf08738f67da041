"""Random segmentations: as defined in the papers, with the same text, and the same for a seed on every machine."""

import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import tokenizer_settings
from transformer.data.subword_sampling import SubwordSampler
from transformer.data.tokenizer import UNK, Kind, Tokenizer, train_tokenizer

PROJECT = Path(__file__).parents[2]
LINES = (PROJECT / "data" / "toy" / "validation.de").read_text(encoding="utf-8").splitlines()
BOTH = pytest.mark.parametrize("kind", ["bpe", "unigram"])
DRAWS = 4000
WORD = "schneller"  # it has many segmentations
Shares = Mapping[tuple[str, ...], float]  # of each segmentation


@cache
def trained(kind: Kind) -> Tokenizer:
    return train_tokenizer(LINES, tokenizer_settings(kind, 400))


def drawn(tokenizer: Tokenizer, word: str, strength: float) -> Shares:
    """The share of draws of each segmentation of a word."""
    ids, random = tokenizer.encode(word), Random(1)
    counts = Counter(
        tuple(map(tokenizer.piece, tokenizer.sample_segmentation(ids, strength, random))) for _ in range(DRAWS)
    )
    return Counter({pieces: count / DRAWS for pieces, count in counts.items()})  # type: ignore[misc]


def segmentation(tokenizer: Tokenizer) -> SubwordSampler:
    return tokenizer._segmentation


def all_segmentations(word: str, known: dict[str, float]) -> list[tuple[str, ...]]:
    cuts = product([False, True], repeat=len(word) - 1)
    places = [[0, *(i + 1 for i, cut in enumerate(row) if cut), len(word)] for row in cuts]
    found = [tuple(word[a:b] for a, b in pairwise(one)) for one in places]
    return [pieces for pieces in found if all(piece in known for piece in pieces)]


def bpe_dropout(
    parts: tuple[str, ...], p: float, scores: dict[str, float], share: float = 1.0
) -> Counter[tuple[str, ...]]:
    """Algorithm 1 of Provilkov et al. for every choice of dropped merges."""
    merges = [i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in scores]
    result: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for kept in product([False, True], repeat=len(merges)):
        probability = share * math.prod(1 - p if keep else p for keep in kept)
        rest = [place for place, keep in zip(merges, kept, strict=True) if keep]
        if not rest:
            result[parts] += probability
            continue
        best = max(rest, key=lambda i: (scores[parts[i] + parts[i + 1]], -i))
        merged = (*parts[:best], parts[best] + parts[best + 1], *parts[best + 2 :])
        for pieces, more in bpe_dropout(merged, p, scores, probability).items():
            result[pieces] += more
    return result


def assert_close(found: Shares, expected: Shares) -> None:
    assert len(expected) > 3
    assert sum(expected.values()) == pytest.approx(1)
    assert found.keys() <= expected.keys()
    for pieces, share in expected.items():
        assert found.get(pieces, 0.0) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / DRAWS) + 1e-3)


def test_without_dropout_bpe_is_that_of_sentencepiece() -> None:
    tokenizer = trained("bpe")
    for line in LINES:
        ids = tokenizer.encode(line)
        assert tokenizer.sample_segmentation(ids, 0.0, Random(1)) == ids


def test_with_all_merges_left_out_bpe_gives_characters() -> None:
    tokenizer = trained("bpe")
    ids = tokenizer.sample_segmentation(tokenizer.encode("der Garten"), 1.0, Random(1))
    assert [tokenizer.piece(id) for id in ids] == [*"▁der▁Garten"]


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_bpe_is_drawn_with_the_probabilities_of_the_paper(dropout: float) -> None:
    tokenizer = trained("bpe")
    expected = bpe_dropout(tuple("▁der"), dropout, segmentation(tokenizer).scores)
    assert_close(drawn(tokenizer, "der", dropout), expected)


@pytest.mark.parametrize("power", [0.2, 1.0])
def test_unigrams_are_drawn_in_proportion_to_a_power_of_their_probability(power: float) -> None:
    tokenizer = trained("unigram")
    scores = segmentation(tokenizer).scores
    found = all_segmentations(f"▁{WORD}", scores)
    weights = {pieces: math.exp(power * sum(scores[piece] for piece in pieces)) for pieces in found}
    expected = {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}
    assert_close(drawn(tokenizer, WORD, power), expected)


@BOTH
@given(line=st.sampled_from(LINES), strength=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_another_segmentation_is_of_the_same_text(kind: Kind, line: str, strength: float, seed: int) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.sample_segmentation(tokenizer.encode(line), strength, Random(seed))
    assert UNK not in ids
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(line))


@BOTH
def test_words_that_are_unknown_or_spelled_in_bytes_stay_as_they_are(kind: Kind) -> None:
    for byte_fallback in (False, True):
        size = 700 if byte_fallback else 400
        tokenizer = train_tokenizer(LINES, tokenizer_settings(kind, size, byte_fallback=byte_fallback))
        ids = tokenizer.encode("猫x der")
        sampled = [tokenizer.sample_segmentation(ids, 0.5, Random(seed)) for seed in range(30)]
        end = next(place for place, id in enumerate(ids) if place and tokenizer.piece(id).startswith("▁"))
        assert all(one[:end] == ids[:end] for one in sampled)
        assert len({tuple(one[end:]) for one in sampled}) > 1


def test_a_long_text_without_spaces_is_segmented_too() -> None:
    tokenizer = trained("unigram")
    ids = tokenizer.encode("dasistgut" * 200)
    assert tokenizer.decode(tokenizer.sample_segmentation(ids, 1.0, Random(1))) == "dasistgut" * 200


def test_a_seed_draws_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "joint.model").write_bytes(trained("bpe").model)
    program = """
from pathlib import Path
from random import Random
from transformer.data.tokenizer import Tokenizer
tokenizer = Tokenizer(Path("joint.model").read_bytes(), "bpe")
ids = tokenizer.encode("Am Dienstag lesen wir im Garten ein Buch.")
print([tokenizer.sample_segmentation(ids, 0.3, Random(f"1:{number}")) for number in range(20)])
"""
    ids = trained("bpe").encode("Am Dienstag lesen wir im Garten ein Buch.")
    here = [trained("bpe").sample_segmentation(ids, 0.3, Random(f"1:{number}")) for number in range(20)]
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": hash_seed}
        printed = subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, text=True, env=environment)
        assert printed.strip() == str(here)
    assert len({str(one) for one in here}) > 10
