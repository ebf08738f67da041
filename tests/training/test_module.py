"""The training step against plain PyTorch, validation and test, and what stops a run."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from lightning import Callback, LightningModule, Trainer
from torch.nn import functional
from torch.utils.data import DataLoader
from transformer.training.callbacks.resumed_optimizer import ResumedOptimizer
from transformer.training.callbacks.self_contained import SelfContainedCheckpoint
from transformer.training.callbacks.validation import FinalValidation

from tests.cases import others_long, skip_without
from tests.data.corpora import settings
from tests.factories import tokenizer_settings
from tests.training.small import SETTINGS, module_for, trainer_for
from transformer import Translator
from transformer.data.batching import Batch
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.inference.translator import BEAM
from transformer.training.config import TrainingSettings
from transformer.training.module import TranslationModule
from transformer.training.optim import learning_rate_factor


def test_only_the_passes_over_whole_sentences_are_compiled_and_only_if_told_to(data: TranslationData) -> None:
    # That they give the same: test_compiled.py.
    plain, compiled = module_for(data).model, module_for(data, replace(SETTINGS, compile="aot_eager")).model
    for name, is_compiled in (("encode", True), ("decode_hidden", True), ("step", False)):
        assert not hasattr(getattr(plain, name), "_torchdynamo_orig_callable")
        assert hasattr(getattr(compiled, name), "_torchdynamo_orig_callable") == is_compiled
    assert compiled.state_dict().keys() == plain.state_dict().keys()


def first_gradient(
    module: TranslationModule, batches: list[Batch], folder: Path, **arguments: Any
) -> dict[str, torch.Tensor]:
    """The gradient that the optimizer gets for its first update."""
    found: dict[str, torch.Tensor] = {}

    class Kept(Callback):
        def on_before_zero_grad(self, trainer: Trainer, module: LightningModule, optimizer: object) -> None:
            if trainer.global_step == 1:
                found.update({name: weight.grad.clone() for name, weight in module.named_parameters()})

    trainer = trainer_for(folder, max_steps=2, limit_val_batches=0, callbacks=[Kept()], **arguments)
    trainer.fit(module, DataLoader(batches, batch_size=None))  # type: ignore[arg-type]
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_accumulated_gradients_are_those_of_the_mean_over_all_tokens(
    data: TranslationData, tmp_path: Path, batches: int
) -> None:
    module, reference = module_for(data), module_for(data)
    parts = list(data.loader("train"))[:3][:batches]
    # Batches of different sizes: a mean of means would differ.
    assert len({int((batch.labels != PAD).sum()) for batch in parts}) == batches
    logits, labels = [], []
    for batch in parts:
        logits.append(reference.model(batch.source, batch.inputs, batch.source_visible).flatten(0, 1))
        labels.append(batch.labels.flatten())
    functional.cross_entropy(  # torch's own mean over real tokens
        torch.cat(logits), torch.cat(labels), ignore_index=PAD, label_smoothing=0.1
    ).backward()

    found = first_gradient(module, parts, tmp_path, accumulate_grad_batches=batches)
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, atol=1e-6, rtol=1e-4)
    # Of two updates: by these the speed of training is told.
    assert module.tokens_seen == 2 * (torch.cat(labels) != PAD).sum()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("batches", others_long([2, 1]))
def test_the_logged_loss_of_a_step_is_the_mean_over_all_its_tokens(
    data: TranslationData, tmp_path: Path, batches: int
) -> None:
    module, parts = module_for(data), list(data.loader("train"))[:batches]
    sums, tokens = zip(*(module.loss(batch) for batch in parts), strict=True)
    trainer = trainer_for(tmp_path, max_steps=1, limit_val_batches=0, accumulate_grad_batches=batches)
    trainer.fit(module, DataLoader(parts, batch_size=None))  # type: ignore[arg-type]
    assert float(trainer.callback_metrics["train/loss"]) == pytest.approx(float(sum(sums) / sum(tokens)), rel=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("algorithm", ["norm", "value"])
def test_the_gradient_of_an_update_is_clipped_as_torch_does_it(
    data: TranslationData, tmp_path: Path, algorithm: Literal["norm", "value"]
) -> None:
    module, reference, limit = module_for(data), module_for(data), 0.01
    parts = list(data.loader("train"))[:1]
    loss, tokens = reference.loss(parts[0])
    (loss / tokens).backward()
    if algorithm == "norm":
        assert torch.nn.utils.clip_grad_norm_(reference.parameters(), limit) > 2 * limit
    else:
        torch.nn.utils.clip_grad_value_(reference.parameters(), limit)
    found = first_gradient(module, parts, tmp_path, gradient_clip_val=limit, gradient_clip_algorithm=algorithm)
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_loss_of_a_validation_is_the_mean_over_all_tokens_without_smoothing(
    data: TranslationData, tmp_path: Path
) -> None:
    module, batches = module_for(data, replace(SETTINGS, r_drop=5.0)), list(data.loader("validation"))
    module.validation_search = replace(module.validation_search, max_length=2)  # how it translates, changes no loss
    # Batches of different sizes: a mean of means would differ.
    assert len({int((batch.labels != PAD).sum()) for batch in batches}) > 1
    labels, model = torch.cat([batch.labels.flatten() for batch in batches]), module.model.eval()
    for _ in range(2):
        logits = [model(batch.source, batch.inputs, batch.source_visible).flatten(0, 1) for batch in batches]
        expected = functional.cross_entropy(torch.cat(logits), labels, ignore_index=PAD).item()
        [found] = trainer_for(tmp_path).validate(module, datamodule=data, verbose=False)
        assert found["validation/loss"] == pytest.approx(expected, rel=1e-5)
        with torch.no_grad():
            model.output.weight.mul_(3)  # the next validation remembers nothing of this one


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


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_resumed_run_sees_the_batches_that_an_uninterrupted_one_sees(data: TranslationData, tmp_path: Path) -> None:
    seen: list[list[int]] = []

    class Watch(Callback):
        def on_train_batch_start(self, trainer: Trainer, module: object, batch: Any, batch_index: int) -> None:
            seen.append(batch.indices.tolist())

    def fit(settings: TrainingSettings, epochs: int, checkpoint: Path | None = None) -> Trainer:
        module = module_for(data, settings)
        watched = {
            "limit_val_batches": 0,
            "max_steps": -1,
            "callbacks": [Watch(), SelfContainedCheckpoint(module.translator), ResumedOptimizer()],
        }
        trainer = trainer_for(tmp_path, max_epochs=epochs, **watched)
        trainer.fit(module, datamodule=data, ckpt_path=checkpoint)
        return trainer

    root = replace(SETTINGS, schedule="inverse_square_root")
    fit(root, epochs=2)
    uninterrupted = seen.copy()
    seen.clear()
    fit(root, epochs=1).save_checkpoint(tmp_path / "half.ckpt")
    second = fit(replace(root, learning_rate=7e-3, weight_decay=0.3), epochs=2, checkpoint=tmp_path / "half.ckpt")
    assert seen == uninterrupted
    # Settings given anew stand above the saved ones.
    [group, plain] = second.optimizers[0].param_groups
    assert (group["initial_lr"], group["weight_decay"], plain["weight_decay"]) == (7e-3, 0.3, 0.0)
    assert group["lr"] == pytest.approx(
        7e-3 * learning_rate_factor("inverse_square_root", root.warmup_steps, 1)(second.global_step)
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("optimizer", others_long(["adamw", "muon"]))
def test_training_learns_a_small_language_and_the_checkpoint_stands_alone(
    data: TranslationData, tmp_path: Path, optimizer: str
) -> None:
    skip_without(optimizer)
    settings = replace(SETTINGS, warmup_steps=20, optimizer=optimizer)
    module = module_for(data, settings)
    trainer = trainer_for(
        tmp_path,
        max_steps=200,
        callbacks=[FinalValidation(), SelfContainedCheckpoint(module.translator)],
        check_val_every_n_epoch=None,
        val_check_interval=1000,
    )
    trainer.fit(module, datamodule=data)
    assert float(trainer.callback_metrics["validation/bleu"]) > 98
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    loaded = Translator.load(tmp_path / "x.ckpt")
    assert loaded.translate(["vier zwei null", "neun"]) == module.translator.translate(["vier zwei null", "neun"])
    content = torch.load(tmp_path / "x.ckpt", weights_only=True)
    assert content["hyper_parameters"]["training"] == asdict(settings)
    content["state_dict"]["model.decoder.norm.weight"][0] += 1e-3
    torch.save(content, tmp_path / "altered.ckpt")
    with pytest.raises(ValueError, match="does not match the digest"):
        Translator.load(tmp_path / "altered.ckpt")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_loss_that_is_not_finite_stops_before_the_update_and_names_the_batch(
    data: TranslationData, tmp_path: Path
) -> None:
    module = module_for(data)
    with torch.no_grad():
        module.model.output.weight[5] = torch.inf
    before = {name: weight.clone() for name, weight in module.named_parameters()}
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) at step 0, batch 0 of epoch 0 \(training pairs \d+"):
        trainer_for(tmp_path, max_steps=3, limit_val_batches=0).fit(module, datamodule=data)
    assert all(torch.equal(weight, before[name]) for name, weight in module.named_parameters())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_where_answers_come_late_the_updates_are_left_out_all_the_same(data: TranslationData, tmp_path: Path) -> None:
    """As on a GPU, which is asked only now and then."""
    module, weights = module_for(data), []

    class Spoil(Callback):
        def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
            module.nonfinite_guard.every = 5
            weights.append({name: weight.detach().clone() for name, weight in module.named_parameters()})

        def on_before_optimizer_step(self, trainer: Trainer, module: Any, optimizer: object) -> None:
            if trainer.global_step == 2:
                module.model.output.weight.grad[3] = torch.nan

    trainer = trainer_for(tmp_path, max_steps=9, limit_val_batches=0, callbacks=[Spoil()], gradient_clip_val=1.0)
    with pytest.raises(ValueError, match=r"the norm of the gradient is nan at step 2, batch 2 of epoch 0 \(training"):
        trainer.fit(module, datamodule=data)
    assert len(weights) == 5
    for name, weight in module.named_parameters():
        assert torch.equal(weight, weights[2][name])
        assert not torch.equal(weights[1][name], weights[2][name])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ids_of_a_batch_and_texts_give_the_same_translations(data: TranslationData, tmp_path: Path) -> None:
    """Lines over data.max_length, whose ids are cut in a batch, included."""
    short = settings(tmp_path, batch_tokens=160, max_length=3)
    cutting = TranslationData(short, tokenizer_settings("word", 100), seed=1)
    too_long = set(cutting.split("test").too_long.tolist())
    assert 0 < len(too_long) < len(cutting.split("test"))
    module = module_for(cutting)
    texts = [source for source, _ in cutting.text_pairs("test")]
    for method in ("beam", "sampling"):  # what is drawn for a line depends on its number
        # An untrained model does not end its translations by itself.
        module.test_search = replace(BEAM, method=method, beam=2, length_ratio=1.0, length_extra=2)
        trainer_for(tmp_path).test(module, datamodule=cutting, verbose=False)
        assert module.test_hypotheses.texts("test") == module.translator.translate(texts, module.test_search)
