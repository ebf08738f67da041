"""Positions compared with the facts in the tutorials (rows C1–C6)."""

import math

import pytest
import torch

from tests.factories import small_model
from transformer.model.attention import MultiHeadAttention
from transformer.model.config import POSITIONS, AttentionConfig
from transformer.model.masks import causal_mask
from transformer.model.positions import (
    ALiBi,
    EmbeddingPositions,
    QueryKeyPositions,
    Rotary,
    ScorePositions,
    Sinusoidal,
    build_positions,
    frequencies,
    sinusoidal_table,
)


def test_the_sinusoidal_table_has_the_published_entries() -> None:
    row = sinusoidal_table(2, 768)[1]
    expected = [0.841471, 0.540302, 0.828431, 0.560091]
    torch.testing.assert_close(row[:4], torch.tensor(expected), atol=1e-6, rtol=0)
    torch.testing.assert_close(row[766:], torch.tensor([0.000102, 1.000000]), atol=2e-6, rtol=0)


def test_each_dimension_is_a_wave_of_its_own_length() -> None:
    lengths = 2 * math.pi / frequencies(768)
    assert lengths[0].item() == pytest.approx(2 * math.pi)
    assert lengths[-1].item() == pytest.approx(2 * math.pi * 10000 ** (766 / 768))
    assert (lengths[1:] > lengths[:-1]).all()
    # In dimension 0 a wave takes 6.28 positions, so position 7 has the value of 0.72, near that of position 1.
    column = sinusoidal_table(8, 768)[:, 0]
    assert column[7].item() == pytest.approx(math.sin(7 - 2 * math.pi), abs=1e-6)
    assert (column - column[1]).abs().argsort()[1] in (2, 7)


def test_a_shift_is_one_rotation_for_all_positions() -> None:
    table, shift = sinusoidal_table(60, 16).double(), 7
    angles = shift * frequencies(16)
    rotation = torch.zeros(16, 16, dtype=torch.float64)
    for i, angle in enumerate(angles.tolist()):
        rotation[2 * i, 2 * i], rotation[2 * i, 2 * i + 1] = math.cos(angle), math.sin(angle)
        rotation[2 * i + 1, 2 * i], rotation[2 * i + 1, 2 * i + 1] = -math.sin(angle), math.cos(angle)
    torch.testing.assert_close(table[:-shift] @ rotation.T, table[shift:], atol=1e-5, rtol=0)


def test_sinusoidal_products_depend_on_the_distance_and_not_on_its_sign() -> None:
    table = sinusoidal_table(50, 32)
    products = table @ table.T
    for distance in range(30):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
        torch.testing.assert_close(products.diagonal(-distance), diagonal)


def test_rotary_products_depend_on_the_distance_and_on_its_sign() -> None:
    rotary, query, key = Rotary(8, 64), torch.randn(8), torch.randn(8)
    turned_query = rotary(query.expand(1, 1, 40, 8))[0, 0]
    turned_key = rotary(key.expand(1, 1, 40, 8))[0, 0]
    products = turned_query @ turned_key.T
    for distance in (1, 5, 9):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
        assert (products.diagonal(-distance)[0] - diagonal[0]).abs() > 1e-3


def test_rotary_turns_each_pair_by_position_times_frequency() -> None:
    vectors = torch.randn(1, 1, 5, 8)
    pairs = torch.view_as_complex(vectors.double().unflatten(-1, (4, 2)).contiguous())
    angles = torch.outer(torch.arange(5, dtype=torch.float64), frequencies(8))
    expected = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).float()
    torch.testing.assert_close(Rotary(8, 64)(vectors), expected, atol=1e-5, rtol=1e-5)


def test_offsets_continue_a_sentence() -> None:
    positions, states = Sinusoidal(16, 12), torch.zeros(1, 9, 16)
    whole = positions(states)
    torch.testing.assert_close(whole[0], sinusoidal_table(9, 16))
    torch.testing.assert_close(positions(states[:, :2], offset=7), whole[:, 7:])


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi", "none"])
def test_the_error_for_a_sentence_longer_than_the_positions_has_the_limit(positions: str) -> None:
    model = small_model(positions=positions, max_length=8)
    model.encode(torch.randint(4, 29, (1, 8)))
    with pytest.raises(ValueError, match="9 tokens are more than the model's 8 positions"):
        model.encode(torch.randint(4, 29, (1, 9)))


def test_without_positions_a_permuted_source_only_permutes_the_states() -> None:
    source, order = torch.randint(4, 29, (2, 7)), torch.randperm(7)
    unordered, ordered = small_model(positions="none"), small_model(positions="sinusoidal")
    states = unordered.encode(source).states
    torch.testing.assert_close(unordered.encode(source[:, order]).states, states[:, order])
    assert not torch.allclose(ordered.encode(source[:, order]).states, ordered.encode(source).states[:, order])


def test_alibi_lowers_each_score_by_its_slope_times_the_distance() -> None:
    attention = MultiHeadAttention(24, AttentionConfig(4, None, None, 0.0, True, "scaled_dot"))
    states, record = torch.randn(1, 5, 24), []
    memory = attention.project_kv(states)
    positions = torch.arange(5)
    bias = ALiBi(4)((positions[:, None] - positions)[None, None])
    attention(states, memory, position_bias=bias, record=record)
    queries = attention.project_queries(states)
    for head in range(4):
        slope = 2 ** (-8 * (head + 1) / 4)
        for i in range(5):
            scores = [queries[0, head, i] @ memory.keys[0, head, j] / 6**0.5 - slope * abs(i - j) for j in range(5)]
            torch.testing.assert_close(record[0][0, head, i], torch.stack(scores).softmax(-1))


@pytest.mark.parametrize("fused", [False, True])
def test_a_bias_is_the_same_in_the_written_out_and_the_fused_attention(
    fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cuda, "flash_sdp_enabled", lambda: fused)
    attention = MultiHeadAttention(24, AttentionConfig(4, None, None, 0.0, True, "scaled_dot"))
    states, visible, bias = torch.randn(2, 5, 24), causal_mask(5, 5, torch.device("cpu")), torch.randn(1, 4, 5, 5)
    shown = attention(states, attention.project_kv(states), visible, position_bias=bias, record=[])
    torch.testing.assert_close(attention(states, attention.project_kv(states), visible, position_bias=bias), shown)


def test_alibi_counts_a_hypothesis_own_past_and_no_key_of_another() -> None:
    model = small_model(positions="alibi")
    source, inputs = torch.randint(4, 29, (2, 7)), torch.randint(4, 29, (6, 5))
    memory = model.encode(source)
    cache = model.decoder.init_cache(memory)
    # The first token is the same for the three hypotheses of a sentence; then the beam is reordered at every step.
    paths = inputs[::3, :1]
    _, cache = model.step(paths[:, 0], cache)
    paths = paths.repeat_interleave(3, dim=0)
    origins = torch.zeros(2, 3, dtype=torch.long)
    for position in range(1, 5):
        cache = cache.select(origins)
        logits, cache = model.step(inputs[:, position], cache)
        rows = (origins + torch.tensor([[0], [3]])).flatten()
        paths = torch.cat([paths[rows], inputs[:, position : position + 1]], dim=1)
        alone = model.decode(paths, model.encode(source.repeat_interleave(3, dim=0)))[:, -1]
        torch.testing.assert_close(logits, alone, atol=1e-5, rtol=1e-5)
        origins = torch.randint(0, 3, (2, 3))


def test_a_model_with_alibi_takes_longer_sentences_than_its_training_had() -> None:
    model = small_model(positions="alibi", max_length=64)
    assert not [name for name, _ in model.named_parameters() if "position" in name]
    assert model(torch.randint(4, 29, (1, 64)), torch.randint(4, 29, (1, 64))).isfinite().all()


def test_positions_act_where_their_class_says_and_one_that_acts_nowhere_is_refused() -> None:
    places = (EmbeddingPositions, QueryKeyPositions, ScorePositions)
    acting = {name: [place for place in places if build_positions(place, name, *SIZES[place])] for name in POSITIONS}
    assert {name: len(found) for name, found in acting.items()} == dict.fromkeys(POSITIONS, 1)
    POSITIONS["lost"] = torch.nn.Identity
    try:
        with pytest.raises(TypeError, match="Identity acts nowhere"):
            build_positions(EmbeddingPositions, "lost", 24, 8)
    finally:
        del POSITIONS["lost"]


SIZES: dict[type, tuple[int, ...]] = {EmbeddingPositions: (24, 8), QueryKeyPositions: (6, 8), ScorePositions: (4,)}
