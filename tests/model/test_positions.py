"""Positions against the facts that the tutorials teach (rows C1–C6)."""

import math

import pytest
import torch

from tests.conftest import small_model
from transformer.model.positions import Rotary, Sinusoidal, frequencies, sinusoidal_table


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
    # In dimension 0 a wave takes 6.28 positions, so position 7 stands where 0.72 would and near position 1.
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


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_a_sentence_longer_than_the_positions_is_told_the_limit(positions: str) -> None:
    model = small_model(positions=positions, max_length=8)
    model.encode(torch.randint(4, 29, (1, 8)))
    with pytest.raises(ValueError, match="9 tokens are more than the model's 8 positions"):
        model.encode(torch.randint(4, 29, (1, 9)))


def test_without_positions_permuting_the_source_permutes_the_states_and_nothing_else() -> None:
    source, order = torch.randint(4, 29, (2, 7)), torch.randperm(7)
    unordered, ordered = small_model(positions="none"), small_model(positions="sinusoidal")
    states = unordered.encode(source).states
    torch.testing.assert_close(unordered.encode(source[:, order]).states, states[:, order])
    assert not torch.allclose(ordered.encode(source[:, order]).states, ordered.encode(source).states[:, order])
