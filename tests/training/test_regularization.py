"""Regularizers drop the set share of a model, only in training, and nothing else."""

import pytest
import torch

from tests.factories import small_model
from transformer import Transformer
from transformer.training.regularization import drop_layers, drop_words


def model(**changes: object) -> Transformer:
    return small_model(**changes)  # type: ignore[return-value]


IDS = torch.randint(4, 29, (6, 11))


def test_a_dropped_word_keeps_its_position_and_loses_its_embedding() -> None:
    dropping = model().train()
    drop_words(dropping, 0.3)
    embedding, plain = dropping.encoder.embedding, model().encoder.embedding
    plain.load_state_dict(embedding.state_dict())
    positions = plain.positions(torch.zeros(6, 11, 24))
    lost = 0
    for _ in range(40):
        states = embedding(IDS)
        gone = torch.isclose(states, positions).all(dim=-1)
        assert torch.equal(states[~gone], plain(IDS)[~gone])
        lost += int(gone.sum())
    assert lost / (40 * IDS.numel()) == pytest.approx(0.3, abs=0.04)  # 2,640 draws: four standard deviations
    assert torch.equal(dropping.eval().encoder.embedding(IDS), plain(IDS))


def test_each_sentence_of_either_side_loses_words_of_its_own() -> None:
    dropping = model().train()
    drop_words(dropping, 0.5)
    same = IDS[:1].expand(2, -1)
    for embedding in (dropping.encoder.embedding, dropping.decoder.embedding):
        one, other = embedding(same)  # 11 words, each lost or not
        assert not torch.equal(one, other)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_dropped_layer_passes_its_states_on_and_has_gradients_of_zero(norm: str) -> None:
    dropping, target = model(norm=norm).train(), torch.randint(4, 29, (6, 7))
    drop_layers(dropping, 1 - 1e-9)
    expected = dropping.encoder.norm(dropping.encoder.embedding(IDS))
    assert torch.equal(dropping.encode(IDS).states, expected)
    dropping(IDS, target).square().sum().backward()
    for layer in (*dropping.encoder.layers, *dropping.decoder.layers):
        for weight in layer.parameters():
            assert weight.grad is not None
            assert not weight.grad.any()
    assert dropping.output.weight.grad is not None
    assert dropping.output.weight.grad.any()


@pytest.mark.long
def test_layers_are_dropped_as_often_as_asked_and_never_when_translating() -> None:
    dropping, target = model(encoder__layers=1).train(), torch.randint(4, 29, (6, 7))
    whole = dropping.eval()(IDS, target)
    drop_layers(dropping, 0.25)
    assert torch.equal(dropping(IDS, target), whole)
    passed = dropping.encoder.norm(dropping.encoder.embedding(IDS))
    dropping.train()
    dropped = sum(torch.equal(dropping.encode(IDS).states, passed) for _ in range(800))
    assert dropped / 800 == pytest.approx(0.25, abs=0.06)
