"""The best continuations compared with torch.topk over everything, and the most probable one with torch.argmax."""

import pytest
import torch

from transformer.kernels.top_k import best_sums, largest


@pytest.mark.parametrize("vocabulary", [8000, 640, 4000, 1000, 1009, 7])
@pytest.mark.parametrize(("rows", "k"), [(1, 10), (5, 10), (3, 2)])
def test_the_best_sums_are_those_of_sorting_everything(vocabulary: int, rows: int, k: int) -> None:
    scores, totals = torch.randn(6, rows, vocabulary), 3 * torch.randn(6, rows)
    # For example for ids that are not allowed now, or a hypothesis that can never win.
    scores[:, :, 2] = -torch.inf
    totals[0, 0] = -torch.inf
    k = min(k, rows * vocabulary)
    sums, origins, ids = best_sums(scores, totals, k)
    everything = (scores + totals[..., None]).flatten(1)
    torch.testing.assert_close(sums, everything.topk(k).values, rtol=0, atol=0)
    finite = sums.isfinite()
    assert torch.equal(everything.gather(1, origins * vocabulary + ids)[finite], sums[finite])
    assert all(len(set(row.tolist())) == k for row in origins * vocabulary + ids)


@pytest.mark.parametrize("vocabulary", [8000, 1000, 1009, 7])
def test_the_most_probable_id_is_the_first_of_the_largest(vocabulary: int) -> None:
    # Rounded, so that many are equal.
    scores = torch.randn(50, vocabulary).round(decimals=1)
    assert torch.equal(largest(scores), scores.argmax(dim=-1))
