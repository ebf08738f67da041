"""Pictures of positions: they draw the model's own tables, and their statements about products and shifts are true."""

import math
import re
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from docs.pictures.positions import (
    dot_products_figure,
    draw_dot_products,
    draw_shift,
    draw_table,
    draw_waves,
    largest_change,
    rotary_dot_products,
    shift_figure,
    sinusoidal_dot_products,
    table_figure,
    waves_figure,
    weights_at,
)
from tests.factories import model_dict, small_model
from transformer.config import from_dict
from transformer.model.attention import AttentionRecord, MultiHeadAttention
from transformer.model.config import AttentionConfig
from transformer.model.positions import Learned, NoPositions, Rotary, Sinusoidal, sinusoidal_table


def line(figure: Figure, panel: int, number: int = 0) -> torch.Tensor:
    return torch.tensor(figure.axes[panel].lines[number].get_ydata())


def test_the_drawn_table_is_the_given_one_with_zero_in_the_middle_of_the_colors() -> None:
    for table in (sinusoidal_table(30, 16), small_model(positions="learned").encoder.embedding.positions.table):
        axes = table_figure(table, "title").axes[0]
        [image] = axes.images
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("dimension", "position")
        torch.testing.assert_close(torch.tensor(image.get_array().data), table.detach())
        low, high = image.get_clim()
        assert -low == high == table.abs().max().item()


def test_waves_pass_through_the_tables_entries_with_the_named_wavelength() -> None:
    figure, table = waves_figure(64), sinusoidal_table(41, 64)
    for panel, axes in enumerate(figure.axes):
        dimension, length = re.match(r"dimension (\d+): a wave takes ([\d.]+) positions", axes.get_title()).groups()
        torch.testing.assert_close(line(figure, panel, 1), table[:, int(dimension)])
        wave, positions = line(figure, panel), torch.tensor(axes.lines[0].get_xdata())
        expected = torch.sin(2 * math.pi * positions / float(length))
        # The length is given with one decimal.
        torch.testing.assert_close(wave, expected, atol=0.06 * 40 / float(length), rtol=0)
        torch.testing.assert_close(wave[:: (len(wave) - 1) // 40].float(), table[:, int(dimension)], atol=1e-5, rtol=0)


def test_in_dimension_0_positions_1_and_7_nearly_agree_and_are_marked() -> None:
    figure = waves_figure(64)
    one, seven = line(figure, 0, 2).tolist()
    assert (one, seven) == pytest.approx((math.sin(1), math.sin(7)), abs=1e-6)
    assert seven == pytest.approx(math.sin(0.23 * math.pi), abs=0.01)
    # A quarter of their mean distance.
    assert abs(one - seven) < 0.2
    assert list(figure.axes[0].lines[2].get_xdata()) == [1, 7]


def test_sinusoidal_dot_products_are_those_of_two_rows_and_symmetric() -> None:
    table, products = sinusoidal_table(60, 32), sinusoidal_dot_products(32, 20)
    for distance in (-20, -3, 0, 7, 20):
        assert products[20 + distance].item() == pytest.approx((table[33] @ table[33 + distance]).item(), abs=1e-4)
    torch.testing.assert_close(products, products.flip(0), atol=1e-4, rtol=0)


def test_rotary_dot_products_are_symmetric_only_where_query_equals_key() -> None:
    query, key = torch.randn(2, 16)
    turned = torch.view_as_complex(query.view(8, 2)).conj() * torch.view_as_complex(key.view(8, 2))
    speeds = 10000.0 ** -(torch.arange(8) / 8)
    angles = torch.outer(torch.arange(-20, 21), speeds)
    expected = (turned * torch.polar(torch.ones_like(angles), angles)).sum(1).real
    products = rotary_dot_products(query, key, 20)
    torch.testing.assert_close(products, expected, atol=1e-4, rtol=1e-4)
    assert (products - products.flip(0)).abs().max() > 1
    same = rotary_dot_products(query, query, 20)
    torch.testing.assert_close(same, same.flip(0), atol=1e-4, rtol=0)


def test_the_picture_of_products_shows_which_are_symmetric() -> None:
    figure = dot_products_figure(64)
    assert [axes.get_title() for axes in figure.axes] == [
        "sinusoidal", "rotary, query = key", "rotary, query and key differ"
    ]  # fmt: skip
    differences = [(line(figure, panel) - line(figure, panel).flip(0)).abs().max() for panel in range(3)]
    assert differences[0] < 1e-3
    assert differences[1] < 1e-3
    assert differences[2] > 1
    for panel in range(3):
        torch.testing.assert_close(line(figure, panel, 1), line(figure, panel).flip(0))
        labels = [one.get_label() for one in figure.axes[panel].lines]
        assert labels == ["dot product", "before and after swapped"]
        assert figure.axes[panel].get_xlabel() == "distance: position of the key − position of the query"


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "bilinear", "concat", "additive"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
def test_shifts_keep_weights_only_with_rotary_products_or_without_positions(positions: str, score: str) -> None:
    config = from_dict(AttentionConfig, {**model_dict()["encoder"]["self_attention"], "score": score}, "attention")
    attention = MultiHeadAttention(24, config, Rotary(config.head_dims(24)[0], 40) if positions == "rotary" else None)
    if score == "bilinear":
        # The matrix of a trained model: at first it is a multiple of the identity.
        torch.nn.init.normal_(attention.score.weight)
    added = {"sinusoidal": Sinusoidal(24, 40), "learned": Learned(24, 40)}.get(positions, NoPositions(24, 40))
    embedded = torch.randn(2, 9, 24)
    changes = [largest_change(attention, added, embedded, offset) for offset in (0, 1, 10, 30)]
    assert changes[0] == 0
    # A rotation of both vectors keeps the dot product (W is applied before it), but not the tanh of the sum.
    if positions == "none" or (positions == "rotary" and score != "additive"):
        assert max(changes) < 1e-5
    else:
        assert min(changes[1:]) > 1e-3


def test_weights_at_a_position_are_those_of_the_encoder() -> None:
    model, source, record = small_model(norm="post"), torch.randint(4, 29, (2, 7)), AttentionRecord([], [], [])
    model.encode(source, record=record)
    embedding = model.encoder.embedding
    embedded = embedding.tokens(source) * embedding.scale
    weights = weights_at(model.encoder.layers[0].self_attention, embedding.positions, embedded, 0)
    torch.testing.assert_close(weights, record.encoder[0])


def test_the_picture_of_a_shift_shows_change_for_sinusoidal_and_none_for_rotary() -> None:
    figure = shift_figure(32, 10)
    start, shifted, change, same, again, unchanged = (
        torch.tensor(axes.images[0].get_array().data) for axes in figure.axes[:6]
    )
    torch.testing.assert_close(change, shifted - start)
    torch.testing.assert_close(same, again, atol=1e-6, rtol=0)
    assert change.abs().max() > 0.01
    assert unchanged.abs().max() < 1e-6
    above, below = figure.axes[:3], figure.axes[3:6]
    assert [axes.get_title() for axes in (*above[:2], *below[:2])] == [
        f"{name}, from position {at}" for name in ("sinusoidal", "rotary") for at in (0, 10)
    ]
    assert above[2].get_title() == f"largest change {change.abs().max().item():.2g}"
    assert {axes.get_ylabel() for axes in (above[0], below[0])} == {"token looking"}
    assert {axes.get_xlabel() for axes in below} == {"token looked at"}
    # One scale of colors for the compared pictures, and white for no change.
    assert len({axes.images[0].get_clim() for axes in (*above[:2], *below[:2])}) == 1
    low, high = above[2].images[0].get_clim()
    assert -low == high == pytest.approx(change.abs().max().item())


@pytest.mark.long
def test_pictures_are_written_and_their_axes_named(tmp_path: Path) -> None:
    draw_table(sinusoidal_table(8, 4), "title", tmp_path / "new" / "table.png")
    draw_waves(8, tmp_path / "waves.png")
    draw_dot_products(8, tmp_path / "dot_products.svg")
    draw_shift(8, 3, tmp_path / "shift.png")
    assert len(list(tmp_path.rglob("*.*"))) == 4
    waves = waves_figure(8).axes  # which share the last one's x axis; the shift: the test above
    assert all(axes.get_ylabel() for axes in waves)
    assert waves[-1].get_xlabel()
    for figure in (table_figure(sinusoidal_table(8, 4), "title"), dot_products_figure(8)):
        assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes if axes.get_label() != "<colorbar>")
