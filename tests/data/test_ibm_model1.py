"""Translation probabilities against plain loops."""

from collections import Counter, defaultdict

import pytest

from transformer.data import ibm_model1 as module
from transformer.data.ibm_model1 import translation_probabilities
from transformer.data.tokenizer import EOS

PAIRS = [([4, 5], [6, 7]), ([4], [6]), ([5, 5, 8], [7, 9]), ([10, 4, 5, 8, 4], [6])]


@pytest.mark.parametrize("places", [1, 4_000_000])  # pair by pair, and together
def test_the_probabilities_are_those_of_model_1(monkeypatch: pytest.MonkeyPatch, places: int) -> None:
    monkeypatch.setattr(module, "PLACES", places)
    expected: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(module.ITERATIONS):
        counts: dict[int, Counter[int]] = defaultdict(Counter)
        for source, target in PAIRS:
            for id in target:
                total = sum(expected[word][id] for word in [*source, EOS])
                for word in [*source, EOS]:
                    counts[word][id] += expected[word][id] / total  # type: ignore[assignment]
        expected = defaultdict(lambda: defaultdict(float))
        for word, of_word in counts.items():
            expected[word] = defaultdict(float, {id: count / of_word.total() for id, count in of_word.items()})
    found = translation_probabilities(PAIRS, (12, 11))
    for word in range(12):
        for id in range(11):
            assert found[word, id].item() == pytest.approx(expected[word][id] if word in expected else 0, abs=1e-6)
