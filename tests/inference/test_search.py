"""Search over an invented `step`: greedy and beam against exhaustive enumeration, limits, shares of sampling."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer.config import from_dict
from transformer.inference.restrictions import Carried
from transformer.inference.search import Hypothesis, sample, search
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM

BOS, EOS = 1, 2
Method = Literal["greedy", "beam", "sampling"]


@dataclass
class Walk:
    """The state of a toy language: the ids so far of each row, and its sentence."""

    said: list[tuple[int, ...]]
    sentences: list[int]

    def select(self, origins: Tensor | None, sentences: Tensor | None = None) -> "Walk":
        kept = list(range(len(self.sentences))) if sentences is None else sentences.tolist()
        each = len(self.said) // len(self.sentences)
        places = torch.arange(each).expand(len(kept), -1) if origins is None else origins
        said = [self.said[i * each + place] for i, row in zip(kept, places.tolist(), strict=True) for place in row]
        return Walk(said, [self.sentences[i] for i in kept])


def language(vocabulary: int, seed: int = 0, sharpness: float = 1.0):  # type: ignore[no-untyped-def]
    """A step function whose log-probabilities depend on the sentence and all ids so far, by a fixed hash."""

    def log_probabilities(sentence: int, said: tuple[int, ...]) -> Tensor:
        key = hash((seed, sentence, said)) % (2**31)
        return (sharpness * torch.randn(vocabulary, generator=torch.Generator().manual_seed(key))).log_softmax(-1)

    def step(ids: Tensor, state: Walk) -> tuple[Tensor, Walk]:
        said = [(*past, new) for past, new in zip(state.said, ids.tolist(), strict=True)]
        each = len(said) // len(state.sentences)
        scores = [log_probabilities(state.sentences[row // each], past) for row, past in enumerate(said)]
        return torch.stack(scores), Walk(said, state.sentences)

    return step, log_probabilities


def run(  # type: ignore[no-untyped-def]
    step, count: int, limit: int, settings: SearchSettings, prefix: Sequence[int] = ()
) -> list[list[Hypothesis]]:
    start = Walk([()] * count, list(range(count)))
    return search(step, start, torch.full((count,), BOS), EOS, [limit] * count, list(range(count)), settings, prefix)


def everything(log_probabilities, sentence: int, vocabulary: int, limit: int, penalty: float):  # type: ignore[no-untyped-def]
    """All hypotheses of up to `limit` tokens with their scores, best first."""
    found = []
    words = [i for i in range(vocabulary) if i != EOS]
    for length in range(limit + 1):
        for ids in product(words, repeat=length):
            total, said = 0.0, (BOS,)
            for word in [*ids, EOS]:
                total += log_probabilities(sentence, said)[word].item()
                said = (*said, word)
            found.append((total / (length + 1) ** penalty, list(ids)))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_ids_that_are_carried_over_come_exactly_as_often_as_asked_in_the_best_way_there_is(seed: int) -> None:
    vocabulary, limit, ids = 5, 4, [3, 4]
    counts = [[1, 0], [2, 1], [0, 0], [1, 3]]
    step, log_probabilities = language(vocabulary, seed)
    start = Walk([()] * len(counts), list(range(len(counts))))
    carried = Carried(torch.tensor(ids), torch.tensor(counts))

    def found(settings: SearchSettings) -> list[list[Hypothesis]]:
        bos, lines = torch.full((len(counts),), BOS), list(range(len(counts)))
        return search(step, start, bos, EOS, [limit] * len(counts), lines, settings, carried=carried)

    def has_all(sentence: int, words: list[int]) -> bool:
        return [words.count(one) for one in ids] == counts[sentence]

    for sentence, hypotheses in enumerate(found(replace(BEAM, beam=500))):
        every = everything(log_probabilities, sentence, vocabulary, limit, 1.0)
        expected = [words for _, words in every if has_all(sentence, words)]
        assert [hypothesis.ids for hypothesis in hypotheses] == expected
    for settings in (replace(BEAM, beam=3), replace(BEAM, method="greedy"), replace(BEAM, method="sampling")):
        for sentence, hypotheses in enumerate(found(replace(settings, no_repeat=1))):
            assert hypotheses
            assert all(has_all(sentence, hypothesis.ids) for hypothesis in hypotheses)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_the_language_finds_what_exhaustive_search_finds(penalty: float, seed: int) -> None:
    vocabulary, limit = 4, 3
    step, log_probabilities = language(vocabulary, seed)
    # 27 sentences of three words and their endings fit: nothing is pruned, and stopping waits for all of them.
    count = sum(3**length for length in range(limit + 1))
    settings = replace(BEAM, beam=count, length_penalty=penalty)
    for sentence, hypotheses in enumerate(run(step, 3, limit, settings)):
        expected = everything(log_probabilities, sentence, vocabulary, limit, penalty)
        assert [hypothesis.ids for hypothesis in hypotheses[:5]] == [ids for _, ids in expected[:5]]
        assert hypotheses[0].score == pytest.approx(expected[0][0], abs=1e-4)


def repeats(ids: Sequence[int], n: int) -> int:
    """The number of repeated sequences of n ids; 0 for n = 0."""
    sequences = [tuple(ids[start : start + n]) for start in range(len(ids) - n + 1)] if n else []
    return len(sequences) - len(set(sequences))


@pytest.mark.parametrize(
    ("prefix", "no_repeat"), [([0], 0), ([3, 0], 0), ([1, 1, 3], 0), ([], 1), ([], 2), ([3, 3], 2), ([0, 0, 0], 1)]
)
def test_a_wide_beam_finds_what_exhaustive_search_finds_with_a_prefix_and_without_repeats(
    prefix: list[int], no_repeat: int
) -> None:
    vocabulary, limit = 4, 4
    settings = replace(BEAM, beam=200, length_penalty=0.6, no_repeat=no_repeat)
    for seed in range(3):
        step, log_probabilities = language(vocabulary, seed)
        for sentence, hypotheses in enumerate(run(step, 2, limit, settings, prefix)):
            expected = [
                (score, ids)
                for score, ids in everything(log_probabilities, sentence, vocabulary, limit, 0.6)
                if ids[: len(prefix)] == prefix
                # The prefix may repeat itself; the rest has no repetition.
                and repeats(ids, no_repeat) == repeats(prefix, no_repeat)
            ]
            assert [one.ids for one in hypotheses] == [ids for _, ids in expected]
            assert [one.score for one in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_a_prefix_begins_and_a_repeat_ends_nothing_in_any_search(method: Method) -> None:
    step, log_probabilities = language(6, sharpness=3.0)
    prefix = [4, 0, 4]
    for no_repeat in (2, 3):
        settings = replace(BEAM, method=method, min_length=10, no_repeat=no_repeat)
        assert any(repeats(one.ids, no_repeat) for [one, *_] in run(step, 8, 20, replace(settings, no_repeat=0)))
        for [one, *_] in run(step, 8, 20, settings):
            assert repeats(one.ids, no_repeat) == 0
        for sentence, [one, *_] in enumerate(run(step, 8, 20, settings, prefix)):
            assert one.ids[:3] == prefix
            total = sum(
                log_probabilities(sentence, (BOS, *one.ids[:end]))[id].item() for end, id in enumerate([*one.ids, EOS])
            )
            assert one.log_probability == pytest.approx(total, abs=1e-3)
    assert all(one.ids == prefix for [one, *_] in run(step, 8, 3, replace(BEAM, method=method), prefix))


def test_with_patience_the_best_hypothesis_is_as_good_or_better() -> None:
    gained = 0.0
    for seed in range(8):
        step, log_probabilities = language(4, seed)
        expected = everything(log_probabilities, 0, 4, 5, 1.5)
        settings = [replace(BEAM, beam=2, length_penalty=1.5, patience=patience) for patience in (1.0, 2.0, 100.0)]
        hasty, patient, last = (run(step, 1, 5, one)[0] for one in settings)
        assert [len(found) for found in (hasty, patient, last)] == [2, 2, 2]
        assert hasty[0].score <= patient[0].score <= last[0].score <= expected[0][0] + 1e-5
        gained += patient[0].score - hasty[0].score
    assert gained > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    step, _ = language(7, seed)
    greedy = run(step, 5, 9, replace(BEAM, method="greedy"))
    assert run(step, 5, 9, replace(BEAM, beam=1)) == greedy


@pytest.mark.parametrize(("method", "patience"), [("greedy", 1.0), ("beam", 1.0), ("beam", 2.0), ("sampling", 1.0)])
def test_sentences_found_together_are_those_found_alone(method: Method, patience: float) -> None:
    settings = replace(BEAM, method=method, patience=patience)
    step, _ = language(11, sharpness=2.0)
    limits, lines = [8, 3, 8, 2, 7, 5, 8, 1] * 2, list(range(16))
    together = search(step, Walk([()] * 16, lines), torch.full((16,), BOS), EOS, limits, lines, settings)
    for sentence, limit in enumerate(limits):
        alone = search(step, Walk([()], [sentence]), torch.tensor([BOS]), EOS, [limit], [sentence], settings)
        assert alone[0] == together[sentence]


def test_lengths_keep_to_their_bounds_and_the_beam_returns_all_its_hypotheses() -> None:
    step, _ = language(9)
    for method in ("greedy", "beam", "sampling"):
        for hypotheses in run(step, 4, 6, replace(BEAM, method=method, min_length=3)):
            assert all(3 <= len(hypothesis.ids) <= 6 for hypothesis in hypotheses)
            assert len(hypotheses) == (5 if method == "beam" else 1)
            assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
            assert EOS not in hypotheses[0].ids


def test_no_hypothesis_is_too_short_however_few_others_there_are() -> None:
    step, _ = language(4)
    for hypotheses in run(step, 4, 3, replace(BEAM, beam=50, min_length=2)):
        assert sorted(len(one.ids) for one in hypotheses) == [2] * 3**2 + [3] * 3**3


@given(st.integers(0, 9), st.integers(9, 30), st.sampled_from([0.0, 0.5, 1.5]), st.integers(0, 9), st.integers(0, 40))
def test_the_largest_length_is_the_last_one_that_every_bound_allows(
    least: int, most: int, ratio: float, extra: int, source: int
) -> None:
    settings = replace(BEAM, min_length=least, max_length=most, length_ratio=ratio, length_extra=extra)
    allowed = [length for length in range(most + 1) if length <= round(ratio * source) + extra]
    assert settings.max_lengths([source, 5])[0] == max(allowed[-1], least, 1)


def test_the_score_counts_the_end_symbol() -> None:
    step, log_probabilities = language(5)
    for method in ("greedy", "beam"):
        best = run(step, 1, 7, replace(BEAM, method=method, length_penalty=0.7))[0][0]
        total, said = 0.0, (BOS,)
        for word in [*best.ids, EOS]:
            total, said = total + log_probabilities(0, said)[word].item(), (*said, word)
        assert best.log_probability == pytest.approx(total, abs=1e-4)
        assert best.score == pytest.approx(total / (len(best.ids) + 1) ** 0.7, abs=1e-4)


def test_an_early_end_does_not_stop_the_search_for_a_longer_and_better_one() -> None:
    # The end symbol at once has probability 0.6; later ends are likely at every step, so they score better by length.
    def step(ids: Tensor, state: Walk) -> tuple[Tensor, Walk]:
        said = [(*past, new) for past, new in zip(state.said, ids.tolist(), strict=True)]
        rows = [[1e-9, 1e-9, 0.6, 0.4] if len(past) == 1 else [0.05, 1e-9, 0.001, 0.949] for past in said]
        rows = [row if len(past) < 8 else [1e-9, 1e-9, 0.99, 0.01] for row, past in zip(rows, said, strict=True)]
        return torch.tensor(rows).log(), Walk(said, state.sentences)

    assert run(step, 1, 20, replace(BEAM, beam=2))[0][0].ids == [3] * 7
    assert run(step, 1, 20, replace(BEAM, beam=2, length_penalty=0.0))[0][0].ids == []


@pytest.mark.parametrize(
    ("settings", "allowed"), [({}, 4), ({"top_k": 2}, 2), ({"top_p": 0.7}, 2), ({"top_p": 0.4}, 1)]
)
def test_sampling_draws_each_id_by_its_share_within_top_k_and_top_p(settings: dict[str, float], allowed: int) -> None:
    shares = torch.tensor([0.1, 0.5, 0.15, 0.25])
    draws = torch.rand(20_000)
    ids = sample(shares.log().expand(20_000, 4), draws, replace(BEAM, method="sampling", **settings))
    expected = shares.clone()
    expected[shares.argsort(descending=True)[allowed:]] = 0
    found = torch.bincount(ids, minlength=4) / 20_000
    torch.testing.assert_close(found, expected / expected.sum(), atol=0.015, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"top_p": 0.4}])
def test_a_draw_at_the_very_end_takes_the_last_id_that_has_a_share(settings: dict[str, float]) -> None:
    shares = torch.tensor([0.0, 0.1, 0.5, 0.4])
    [id] = sample(shares.log()[None], torch.ones(1), replace(BEAM, method="sampling", **settings)).tolist()
    assert id == {"top_k": 3, "top_p": 2}.get(next(iter(settings), ""), 1)


def test_neither_another_seed_nor_another_line_repeats_what_was_drawn() -> None:
    step, _ = language(50)
    drawn = [
        tuple(search(step, Walk([()], [0]), torch.tensor([BOS]), EOS, [9], [line], replace(BEAM, **sampled))[0][0].ids)
        for sampled in ({"method": "sampling", "seed": seed} for seed in range(4))
        for line in range(4)
    ]
    assert len(set(drawn)) == 16


def test_temperature_sharpens_and_a_seed_repeats() -> None:
    shares, draws = torch.tensor([0.2, 0.8]).log().expand(20_000, 2), torch.rand(20_000)
    cold = sample(shares, draws, replace(BEAM, method="sampling", temperature=0.5)).float().mean()
    assert cold.item() == pytest.approx(0.8**2 / (0.8**2 + 0.2**2), abs=0.01)
    step, _ = language(50)
    first, second = (run(step, 3, 9, replace(BEAM, method="sampling", seed=seed)) for seed in (1, 2))
    assert first == run(step, 3, 9, replace(BEAM, method="sampling", seed=1))
    assert first != second


def test_settings_out_of_range_are_named() -> None:
    for change in (
        {"beam": 0},
        {"min_length": 9, "max_length": 3},
        {"temperature": 0.0},
        {"top_p": 0.0},
        {"top_k": -1},
    ):
        with pytest.raises(ValueError, match=rf"search\.{next(iter(change))}"):
            from_dict(SearchSettings, asdict(BEAM) | change, "search")
