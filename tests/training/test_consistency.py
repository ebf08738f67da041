"""The loss of two views against its formula, written out with torch's own functions."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from tests.conftest import small_model
from transformer import Transformer
from transformer.data.batching import Batch, visible_tokens
from transformer.data.tokenizer import PAD
from transformer.training.consistency import RegularizationSettings, consistent_loss

R_DROP = RegularizationSettings(0.0, 0.0, 0.0, "r_drop", 5.0, "token", 0.2)


@pytest.fixture
def batch() -> Batch:
    source, labels = torch.randint(4, 29, (5, 9)), torch.randint(4, 29, (5, 7))
    source[1:3, 6:], labels[2:, 5:] = PAD, PAD
    return Batch(source, visible_tokens(source), torch.randint(4, 29, (5, 7)), labels, torch.arange(5))


def model(dropout: float) -> Transformer:
    return small_model(dropout=dropout).train()  # type: ignore[return-value]


@pytest.mark.parametrize("consistency", ["r_drop", "cutoff"])
def test_views_that_are_the_same_have_the_loss_and_gradient_of_one(batch: Batch, consistency: str) -> None:
    settings = replace(R_DROP, consistency=consistency, cut_share=0.0)
    twice, once = model(0.0), model(0.0)
    once.load_state_dict(twice.state_dict())
    real = batch.labels != PAD
    logits = once(batch.source, batch.inputs, batch.source_visible)[real]
    expected = functional.cross_entropy(logits, batch.labels[real], reduction="sum", label_smoothing=0.1)
    loss = consistent_loss(twice, batch, 0.1, settings)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    for one, other in zip(twice.parameters(), once.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("consistency", ["r_drop", "cutoff"])
def test_views_that_differ_have_the_loss_of_the_papers(batch: Batch, consistency: str) -> None:
    settings, dropping = replace(R_DROP, consistency=consistency), model(0.3)
    states: list[torch.Tensor] = []
    hook = dropping.decoder.norm.register_forward_hook(lambda _, __, output: states.append(output))
    loss = consistent_loss(dropping, batch, 0.1, settings)
    hook.remove()
    real = batch.labels != PAD
    first, second = (dropping.output(view[real]).log_softmax(dim=-1) for view in states[0].chunk(2))
    assert not torch.allclose(first, second)
    labels = batch.labels[real]
    cross_entropy = sum(
        functional.cross_entropy(view, labels, reduction="sum", label_smoothing=0.1) for view in (first, second)
    )
    if consistency == "r_drop":
        targets = second, first
    else:
        middle = ((first.exp() + second.exp()) / 2).log()
        targets = middle, middle
    apart = sum(
        functional.kl_div(target, view, reduction="sum", log_target=True) / 2
        for view, target in zip((first, second), targets, strict=True)
    )
    torch.testing.assert_close(loss, (cross_entropy + 5.0 * apart) / 2, rtol=1e-5, atol=1e-4)
