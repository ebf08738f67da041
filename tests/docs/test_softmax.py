"""The picture of the softmax with and without scaling: its numbers, and its message."""

from pathlib import Path

import pytest
import torch

from docs.pictures.softmax import HEAD_DIMS, draw_softmax, sharpness, softmax_figure


def test_the_gradient_is_the_trace_of_the_softmaxs_jacobian() -> None:
    # The same draws, one row at a time, through autograd.
    generator = torch.Generator().manual_seed(1)
    queries, keys = (torch.randn(64, 1, 32, 16, generator=generator) for _ in range(2))
    rows = (queries @ keys.mT).flatten(0, 2)[::16]
    traces = [torch.autograd.functional.jacobian(lambda row: row.softmax(-1), row).trace() for row in rows]
    assert sharpness(16, 1.0).gradient == pytest.approx(torch.stack(traces).mean().item(), abs=0.05)
    largest = [row.exp().max() / row.exp().sum() for row in rows]
    assert sharpness(16, 1.0).largest == pytest.approx(torch.stack(largest).mean().item(), abs=0.05)


def test_without_scaling_the_softmax_sharpens_and_starves_as_heads_grow_wider() -> None:
    scaled, unscaled = ([sharpness(dim, dim**power) for dim in HEAD_DIMS] for power in (-0.5, 0.0))
    assert max(value.largest for value in scaled) - min(value.largest for value in scaled) < 0.03
    assert sorted(unscaled) == unscaled
    at_512 = HEAD_DIMS.index(512)
    assert unscaled[at_512].largest > 0.9
    assert scaled[at_512].gradient > 5 * unscaled[at_512].gradient
    # The scaled scores have variance 1 for every width, as if they had been drawn with it.
    drawn = torch.randn(4096, 32).softmax(-1)
    assert scaled[-1].largest == pytest.approx(drawn.amax(-1).mean().item(), abs=0.01)


@pytest.mark.long
def test_the_picture_draws_these_numbers_over_a_logarithmic_axis(tmp_path: Path) -> None:
    figure = softmax_figure()
    for axes, part in zip(figure.axes, ("largest", "gradient"), strict=True):
        for number, power in enumerate((-0.5, 0.0)):
            expected = [getattr(sharpness(dim, dim**power), part) for dim in HEAD_DIMS]
            assert list(axes.lines[number].get_xdata()) == list(HEAD_DIMS)
            assert list(axes.lines[number].get_ydata()) == expected
            assert axes.lines[number].get_label().startswith("scaled" if power else "unscaled")
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == "head dimension H"
        assert axes.get_ylabel().startswith(part)
    [_, _, alike] = figure.axes[0].lines
    assert (alike.get_ydata()[0], alike.get_label()) == (1 / 32, "all 32 keys alike: 1/32")
    draw_softmax(tmp_path / "new" / "softmax.pdf")
    assert (tmp_path / "new" / "softmax.pdf").read_bytes().startswith(b"%PDF")
