"""An ensemble searches with the mean of its members' probabilities."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.factories import model_dict, tokenizer_settings
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import BOS, EOS, Tokenizer, train_tokenizer
from transformer.inference.alignment_head import AlignmentHead
from transformer.inference.choosing import pair_log_probabilities
from transformer.inference.ensemble import Ensemble, load_ensemble
from transformer.inference.settings import Defaults
from transformer.inference.translator import BEAM
from transformer.tools.page.explanation import explain

TEXTS = ["ein Haus", "der kleine Hund läuft schnell", "", "ja", "wir gehen in den Park, weil die Sonne scheint"]
SEARCH = replace(BEAM, length_ratio=1.0, length_extra=3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 60))


def untrained(tokenizer: Tokenizer, seed: int, **changes: object) -> Translator:
    torch.manual_seed(seed)
    plain = model_dict(**{"source_vocab_size": 60, "target_vocab_size": 60, "max_length": 32} | changes)
    model = Transformer(from_dict(ModelConfig, plain, "model")).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)  # so that an untrained model has preferences
    return Translator(model, (tokenizer, tokenizer), ("de", "en"))


@pytest.fixture(scope="module")
def pair(tokenizer: Tokenizer) -> list[Translator]:
    # Different sizes, and dropout that must be off.
    return [untrained(tokenizer, 1), untrained(tokenizer, 2, dim=36, decoder__layers=1, dropout=0.5, max_length=24)]


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_a_hypothesis_has_the_mean_probability_of_the_members_at_each_step(pair: list[Translator], method: str) -> None:
    pair[1].model.train()
    together = Ensemble(pair)
    search = replace(SEARCH, method=method)
    translations = together.n_best(TEXTS, search)
    assert pair[1].model.training, "as it was before"
    pair[1].model.eval()
    for text, hypotheses in zip(TEXTS, translations, strict=True):
        for hypothesis in hypotheses if text else []:
            source = torch.tensor([[*together.source_tokenizer.encode(text), EOS]])
            ids = together.target_tokenizer.ids(hypothesis.pieces)
            total = 0.0
            with torch.no_grad():
                shares = [member.model(source, torch.tensor([[BOS, *ids]]))[0].softmax(dim=-1) for member in pair]
            for step, id in enumerate([*ids, EOS]):
                total += math.log(sum(share[step, id].item() for share in shares) / 2)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-3)
            assert hypothesis.score == pytest.approx(total / (len(ids) + 1), abs=1e-4)


def test_the_log_probability_of_a_pair_is_that_of_the_members_mean(pair: list[Translator]) -> None:
    together, pairs = Ensemble(pair), list(zip(TEXTS[:2], TEXTS[3:], strict=True))
    expected = []
    for text, target in pairs:
        source = torch.tensor([[*together.source_tokenizer.encode(text), EOS]])
        ids = together.target_tokenizer.encode(target)
        with torch.no_grad():
            shares = [member.model(source, torch.tensor([[BOS, *ids]]))[0].softmax(dim=-1) for member in pair]
        mean = (shares[0] + shares[1]) / 2
        expected.append(sum(mean[step, id].log().item() for step, id in enumerate([*ids, EOS])))
    assert pair_log_probabilities(together, pairs) == pytest.approx(expected, abs=1e-3)


def test_an_ensemble_has_no_attention_of_its_own(pair: list[Translator]) -> None:
    with pytest.raises(ValueError, match="give only one of them"):
        explain(Ensemble(pair), "ein Haus", SEARCH)


def test_the_first_member_aligns_words_and_its_length_penalty_is_used(tokenizer: Tokenizer) -> None:
    first, second = untrained(tokenizer, 1), untrained(tokenizer, 2)
    first.alignment, first.defaults = AlignmentHead(2, 1, shifted=True), Defaults(length_penalty=0.25)
    together = Ensemble([first, second])
    assert (together.alignment, together.defaults) == (first.alignment, first.defaults)


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_a_model_and_itself_translate_as_it_does_alone(pair: list[Translator], method: str) -> None:
    search = replace(SEARCH, method=method)
    alone, twice = pair[0].n_best(TEXTS, search), Ensemble([pair[0], pair[0]]).n_best(TEXTS, search)
    for before, after in zip(alone, twice, strict=True):
        assert [one.pieces for one in before] == [one.pieces for one in after]
        assert [one.score for one in before] == pytest.approx([one.score for one in after], abs=1e-5)


def test_the_members_are_equal_whatever_their_order_and_batch(pair: list[Translator]) -> None:
    forth, back = Ensemble(pair).n_best(TEXTS, SEARCH), Ensemble(pair[::-1]).n_best(TEXTS, SEARCH, batch_tokens=1)
    for before, after in zip(forth, back, strict=True):
        assert [one.score for one in before] == pytest.approx([one.score for one in after], abs=1e-5)
    assert forth[1][0].score != pytest.approx(pair[0].n_best(TEXTS, SEARCH)[1][0].score, abs=1e-3)


def test_the_member_with_the_fewest_positions_limits_a_line(pair: list[Translator]) -> None:
    long = " ".join(["Haus"] * 12)
    tokens = len(pair[0].source_tokenizer.encode(long))
    assert 24 <= tokens < 32
    assert pair[0].n_best(long, SEARCH, split_lines="never")
    with pytest.raises(ValueError, match="more than the 23 this model allows"):
        Ensemble(pair).n_best(long, SEARCH, split_lines="never")


def test_models_that_do_not_belong_together_are_refused(pair: list[Translator], tmp_path: Path) -> None:
    others = train_tokenizer([text[::-1] for text in TEXTS * 3], tokenizer_settings("bpe", 60))
    with pytest.raises(ValueError, match="model 3 has other tokenizers than model 1"):
        Ensemble([*pair, untrained(others, 3)])
    back = Translator(pair[0].model, pair[0].tokenizers, ("en", "de"))
    with pytest.raises(ValueError, match="model 2 translates en → de, model 1 de → en"):
        Ensemble([pair[0], back])
    with pytest.raises(ValueError, match="an ensemble cannot be saved in one file"):
        Ensemble(pair).save(tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="an ensemble needs a model or more"):
        Ensemble([])
    with pytest.raises(ValueError, match="load_ensemble takes the files of its models"):
        Ensemble.load(tmp_path / "x.safetensors")


@pytest.mark.long
def test_files_are_loaded_as_one_translator(pair: list[Translator], tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for translator, path in zip(pair, paths, strict=True):
        translator.save(path)
    together = load_ensemble([*map(str, paths)])
    assert together.translate(TEXTS, SEARCH) == Ensemble(pair).translate(TEXTS, SEARCH)
    with pytest.raises(TypeError, match="paths must be a list of files, not one"):
        load_ensemble(str(paths[0]))
    assert load_ensemble(paths[:1]).translate(TEXTS, SEARCH) == pair[0].translate(TEXTS, SEARCH)
