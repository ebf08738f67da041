"""Guided alignment compared with plain loops and torch's cross-entropy, and the attention that a head learns with
it."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.training.small import DIGITS, SETTINGS, module_for, numbers_data, training_for
from transformer.data.aligner import TranslationTable
from transformer.data.batching import Batch
from transformer.data.tokenizer import EOS, PAD
from transformer.model.attention import AttentionRecord
from transformer.training.config import GuidedAlignmentSettings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.module import twice

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ONE = GuidedAlignmentSettings(weight=1.0, steps=10)


def table(probabilities: Tensor) -> TranslationTable:
    return TranslationTable(torch.arange(probabilities.numel()), probabilities.flatten(), probabilities.size(1))


def small() -> tuple[GuidedAlignment, Batch]:
    """Two pairs with padding on both sides; no source id has the target id 9."""
    torch.manual_seed(1)
    probabilities = torch.rand(12, 12)
    probabilities[:, [PAD, EOS, 9]] = probabilities[PAD] = 0
    source, labels = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]]), torch.tensor([[4, 9, EOS], [6, EOS, PAD]])
    return GuidedAlignment(table(probabilities), ONE), Batch(source, source != PAD, labels, labels, torch.arange(2))


def test_a_share_is_the_probability_times_the_nearness_of_the_places() -> None:
    guide, batch = small()
    shares = guide.targets(batch)
    for row, (source, target) in enumerate(zip(batch.source.tolist(), batch.labels.tolist(), strict=True)):
        source, target = [id for id in source if id != PAD], [id for id in target if id != PAD]
        for i, of_target in enumerate(target):
            weights = [
                guide.table(torch.tensor(of_source), torch.tensor(of_target)).item()
                * math.exp(-4 * abs((i + 0.5) / len(target) - (j + 0.5) / len(source)))
                for j, of_source in enumerate(source)
            ]
            expected = [weight / sum(weights) if any(weights) else 0.0 for weight in weights]
            assert shares[row, i].tolist() == pytest.approx(expected + [0.0] * (4 - len(source)), abs=1e-6)
    assert shares.sum(dim=-1).tolist() == [pytest.approx([1, 0, 0]), pytest.approx([1, 0, 0])], "4 and 6 were counted"


@pytest.mark.parametrize("views", [1, 2])  # 2: with R-Drop
def test_the_loss_is_torchs_cross_entropy_with_the_shares_as_targets(views: int) -> None:
    guide, batch = small()
    scores = torch.randn(2, 3, 3, 4).masked_fill(batch.source[:, None, None] == PAD, -math.inf)
    first, last = torch.rand(2, views * 2, 3, 3, 4)
    layers = [first, scores.softmax(dim=-1).repeat(views, 1, 1, 1), last]
    finite = scores[:, 0].flatten(0, 1).clamp_min(-30)
    expected = functional.cross_entropy(finite, guide.targets(batch).flatten(0, 1), reduction="sum")
    assert guide.loss(layers, batch).item() == pytest.approx(expected.item(), rel=1e-4)


def test_its_weight_falls_evenly_to_nothing() -> None:
    guide, _ = small()
    assert [guide.weight(step) for step in (0, 5, 9, 10, 99)] == pytest.approx([1, 0.5, 0.1, 0, 0])


def attention_to_translations(module: object, batch: Batch) -> float:
    """The mean share of the guided head's attention from a number's word to the digit that it translates."""
    record = AttentionRecord([], [], [])
    model = module.model.eval()  # type: ignore[attr-defined]
    with torch.no_grad():
        model.decode_hidden(batch.inputs, model.encode(batch.source, batch.source_visible), record)
    head: Tensor = record.cross[max(0, len(record.cross) - 2)][:, 0]
    real = (batch.labels != PAD) & (batch.labels != EOS)
    return head.diagonal(dim1=1, dim2=2)[real[:, : head.size(2)]].mean().item()


@pytest.mark.long
def test_a_guided_head_looks_at_translations_after_a_few_steps(tmp_path: Path) -> None:
    data, attended = numbers_data(tmp_path), []
    assert len(DIGITS) == 10, "each digit is one word in either language, in the same order"
    batch = next(iter(data.loader("validation")))
    for weight in (0.0, 3.0):
        module = module_for(data, replace(SETTINGS, patience=50))
        settings = GuidedAlignmentSettings(weight=weight, steps=40)
        guide = GuidedAlignment.learn([data.split("train")], len(data.target_tokenizer), settings)
        training_for(module, data, tmp_path, guide=guide if weight else None, max_steps=40, limit_val_batches=0).fit()
        attended.append(attention_to_translations(module, batch))
    without, guided = attended
    assert guided > without + 0.2


def test_the_logged_loss_is_that_of_the_translation_alone(tmp_path: Path) -> None:
    data, logged = numbers_data(tmp_path), []
    for guide in (None, GuidedAlignment(table(torch.rand(100, 100)), ONE)):
        module = module_for(data, SETTINGS)
        training = training_for(module, data, tmp_path, guide=guide, max_steps=1, limit_val_batches=0)
        training.fit()
        logged.append(float(training.reporter.loss or 0))
    assert logged[0] > 1
    assert logged[0] == pytest.approx(logged[1])  # a recorded attention is summed in a different order


def test_a_batch_that_passes_twice_is_guided_as_one_that_passes_once() -> None:
    guide, batch = small()
    layers = [torch.rand(2, 3, 3, 4)]
    doubled = [torch.cat([layers[0], layers[0]])]
    assert guide.loss(doubled, batch).item() == pytest.approx(guide.loss(layers, batch).item())
    assert guide.loss(doubled, twice(batch)).item() == pytest.approx(2 * guide.loss(layers, batch).item())
