"""The loss of a batch, and the content of a checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.data.corpora import settings, write
from tests.factories import tokenizer_settings
from tests.training.small import SETTINGS, module_for
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD


def test_only_the_passes_over_whole_sentences_are_compiled_and_only_if_set(data: TranslationData) -> None:
    # test_compiled.py tests that both give the same.
    plain, compiled = module_for(data).model, module_for(data, replace(SETTINGS, compile="aot_eager")).model
    for name, is_compiled in (("encode", True), ("decode_hidden", True), ("step", False)):
        assert not hasattr(getattr(plain, name), "_torchdynamo_orig_callable")
        assert hasattr(getattr(compiled, name), "_torchdynamo_orig_callable") == is_compiled
    assert compiled.state_dict().keys() == plain.state_dict().keys()


def test_the_loss_of_a_step_is_torchs_mean_over_its_real_tokens(data: TranslationData) -> None:
    module = module_for(data).train()
    for batch in list(data.loader("train"))[:3]:
        logits = module.model(batch.source, batch.inputs, batch.source_visible).flatten(0, 1)
        expected = functional.cross_entropy(logits, batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1)
        assert module.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_step_with_r_drop_has_the_loss_of_two_draws_of_dropout(data: TranslationData) -> None:
    module = module_for(data, replace(SETTINGS, r_drop=5.0), dropout=0.2).train()
    batch = next(iter(data.loader("train")))
    torch.manual_seed(3)
    loss, tokens = module.loss(batch)
    torch.manual_seed(3)
    visible = None if batch.source_visible is None else batch.source_visible.repeat(2, 1)
    logits = module.model(batch.source.repeat(2, 1), batch.inputs.repeat(2, 1), visible)
    labels, is_token = batch.labels.repeat(2, 1), batch.labels != PAD
    both = functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )
    first, second = logits.log_softmax(dim=-1).chunk(2)
    # KL(p‖q) + KL(q‖p) = Σ (p − q) (log p − log q)
    divergence = ((first.exp() - second.exp()) * (first - second)).sum(dim=-1)[is_token].sum()
    assert divergence > 0.1
    torch.testing.assert_close(loss, (both + 5.0 * divergence / 2) / 2, rtol=1e-5, atol=1e-3)
    assert tokens == is_token.sum()


def test_a_checkpoint_of_other_tokenizers_is_refused(tmp_path: Path) -> None:
    modules = []
    for word in ("Hund", "Katze"):
        (folder := tmp_path / word).mkdir()
        write(folder, "x.de", ["ein", word])
        write(folder, "x.en", ["a", "pet"])
        modules.append(module_for(TranslationData(settings(folder), tokenizer_settings("word", 100), seed=1)))
    first, second = modules
    checkpoint: dict[str, Any] = {"state_dict": first.state_dict()}
    first.on_save_checkpoint(checkpoint)
    first.on_load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match="trained with other tokenizers: the corpus or its settings have changed"):
        second.on_load_checkpoint(checkpoint)
