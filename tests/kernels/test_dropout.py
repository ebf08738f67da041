"""Our dropout against its definition (row B4)."""

import pytest
import torch

from transformer.kernels.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_zeroes_its_share_scales_the_rest_and_is_off_in_evaluation(p: float) -> None:
    dropout, ones = Dropout(p), torch.ones(1001, 997)
    dropped = dropout(ones)
    assert (dropped == 0).float().mean() == pytest.approx(p, abs=0.005)
    torch.testing.assert_close(dropped[dropped != 0].unique(), torch.tensor([1 / (1 - p)]))
    # Neighbors share one draw of random bits but must be dropped independently.
    kept = (dropped != 0).flatten().float()
    assert torch.corrcoef(torch.stack([kept[:-1], kept[1:]]))[0, 1].abs() < 0.01
    assert torch.equal(dropout.eval()(ones), ones)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.999])
def test_over_many_draws_dropout_leaves_the_mean_as_it_was(p: float) -> None:
    """A byte has 256 values. A share between two multiples of 1/256 is right on average; beyond the last one, the scale
    corrects it."""
    dropout, ones = Dropout(p), torch.ones(64, 64)
    dropped = torch.stack([dropout(ones) for _ in range(400)])
    assert dropped.mean() == pytest.approx(1, abs=0.05 if p > 0.99 else 0.001)
    assert (dropped == 0).float().mean() == pytest.approx(min(p, 255 / 256), rel=0.3, abs=0.001)


def test_dropout_passes_gradients_to_what_it_kept_and_nothing_else() -> None:
    states = torch.ones(64, 64, requires_grad=True)
    dropped = Dropout(0.3)(states)
    dropped.sum().backward()
    torch.testing.assert_close(states.grad, dropped.detach())
