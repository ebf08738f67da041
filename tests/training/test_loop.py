"""The loop compared with plain PyTorch and with Lightning's Trainer, and when it validates and ends."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.cases import others_long
from tests.reliability.runs import corpus, last, position, settings, train
from tests.training.small import SETTINGS, module_for, numbers_data, trainer_for, training_for
from transformer import Translator
from transformer.data.batching import Batch
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.kernels.dropout import Dropout
from transformer.training.loop import Training, seed_batch
from transformer.training.module import TranslationModule

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def first_batches(data: TranslationData, count: int) -> list[Batch]:
    return [batch for batch, _ in zip(data.loader("train", accumulate=count), range(count), strict=False)]


def gradient_of(module: TranslationModule, batches: list[Batch]) -> dict[str, Tensor]:
    """Torch's own mean over the real tokens of all batches together, without dropout."""
    logits = [module.model(one.source, one.inputs, one.source_visible).flatten(0, 1) for one in batches]
    labels = torch.cat([one.labels.flatten() for one in batches])
    functional.cross_entropy(torch.cat(logits), labels, ignore_index=PAD, label_smoothing=0.1).backward()
    return {name: weight.grad for name, weight in module.named_parameters() if weight.grad is not None}


def gradients_of_steps(training: Training) -> list[dict[str, Tensor]]:
    """Trains; the gradient of each update, as the optimizer sees it."""
    found: list[dict[str, Tensor]] = []

    def keep(of: Training) -> None:
        found.append({name: weight.grad.clone() for name, weight in of.module.named_parameters()})  # type: ignore[union-attr]

    training.on_step = [keep]
    training.fit()
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_gradient_of_a_step_is_that_of_the_mean_over_all_its_tokens(
    data: TranslationData, tmp_path: Path, count: int
) -> None:
    batches = first_batches(data, count)
    # Batches of different sizes, for which a mean of means would differ.
    assert len({int((batch.labels != PAD).sum()) for batch in batches}) == count
    expected = gradient_of(module_for(data), batches)
    limits = {"max_steps": 1, "limit_val_batches": 0, "accumulate_grad_batches": count}
    [found] = gradients_of_steps(training_for(module_for(data), data, tmp_path, **limits))
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)


def test_the_gradient_is_clipped_and_its_norm_logged_as_torch_has_it(data: TranslationData, tmp_path: Path) -> None:
    limit, reference, logged = 0.01, module_for(data), []
    gradient_of(reference, first_batches(data, 1))
    norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), limit)
    assert norm > 2 * limit
    few = {"max_steps": 1, "limit_val_batches": 0, "gradient_clip_val": limit, "log_every_n_steps": 1}
    training = training_for(module_for(data), data, tmp_path, **few)
    training.log = logged.append  # type: ignore[method-assign]
    [found] = gradients_of_steps(training)
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, atol=1e-6, rtol=1e-4)
    assert float(logged[0]["train/gradient_norm"]) == pytest.approx(float(norm), rel=1e-5)


def test_some_steps_are_those_of_a_plain_loop_and_of_lightnings_trainer(data: TranslationData, tmp_path: Path) -> None:
    """With dropout and a learning rate that changes at every step."""
    steps, modules = 5, [module_for(data, SETTINGS, dropout=0.2) for _ in range(3)]
    training_for(modules[0], data, tmp_path / "ours", max_steps=steps, limit_val_batches=0).fit()

    plain = modules[1].train()
    optimizer = torch.optim.AdamW(plain.build_optimizer().param_groups, betas=(0.9, 0.98))
    rates = []
    for number, batch in zip(range(steps), data.loader("train"), strict=False):
        # Linear warm-up over 4 steps, then half a cosine over the rest.
        rates.append(0.01 * ([0.25, 0.5, 0.75, 1.0, 0.0][number]))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        seed_batch(1, 0, 0, number, torch.device("cpu"))
        optimizer.zero_grad()
        plain.training_step(batch, number).backward()
        optimizer.step()

    class SeededAsOurs(TranslationModule):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            seed_batch(1, 0, self.current_epoch, batch_idx, torch.device("cpu"))

    modules[2].__class__ = SeededAsOurs
    trainer = trainer_for(tmp_path / "theirs", max_steps=steps, limit_val_batches=0, enable_checkpointing=False)
    trainer.fit(modules[2], datamodule=data)
    for other in modules[1:]:
        for name, weight in modules[0].named_parameters():
            if "key.bias" not in name:  # its gradient is only a rounding error, and Adam makes a full step
                torch.testing.assert_close(weight, other.get_parameter(name), atol=1e-6, rtol=1e-4, msg=name)


def test_lightnings_trainer_validates_saves_and_what_it_saves_can_be_loaded(
    data: TranslationData, tmp_path: Path
) -> None:
    module = module_for(data)
    trainer = trainer_for(tmp_path, max_steps=30, check_val_every_n_epoch=None, val_check_interval=30)
    trainer.fit(module, datamodule=data)
    found = float(trainer.callback_metrics["validation/loss"])
    logits, labels = [], []
    with torch.no_grad():
        for batch in data.loader("validation"):
            logits.append(module.model.eval()(batch.source, batch.inputs, batch.source_visible).flatten(0, 1))
            labels.append(batch.labels.flatten())
    expected = functional.cross_entropy(torch.cat(logits), torch.cat(labels), ignore_index=PAD).item()
    assert found == pytest.approx(expected, rel=1e-4)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    loaded = Translator.load(tmp_path / "x.ckpt")
    assert loaded.translate(["vier zwei null", "neun"]) == module.translator.translate(["vier zwei null", "neun"])
    content = torch.load(tmp_path / "x.ckpt", weights_only=True)
    content["state_dict"]["model.decoder.norm.weight"][0] += 1e-3
    torch.save(content, tmp_path / "altered.ckpt")
    with pytest.raises(ValueError, match="does not match the digest"):
        Translator.load(tmp_path / "altered.ckpt")


def test_dropout_grows_evenly_to_that_of_the_model(tmp_path: Path) -> None:
    data = numbers_data(tmp_path)
    module = module_for(data, replace(SETTINGS, dropout_warmup_steps=4), dropout=0.4)
    zeros = []

    def count(dropout: nn.Module, arguments: Any, states: Tensor) -> None:
        if dropout.training:
            zeros.append((states == 0).float().mean().item())

    for side in (module.model.encoder, module.model.decoder):
        side.embedding.dropout.register_forward_hook(count)
    shares = {part.p for part in module.modules() if isinstance(part, Dropout)}
    training_for(module, data, tmp_path, max_steps=8, limit_val_batches=0).fit()
    for of_side in (zeros[::2], zeros[1::2]):
        assert of_side[0] == 0
        assert of_side == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4], abs=0.06)
    assert {part.p for part in module.modules() if isinstance(part, Dropout)} == shares == {0.4, 0.0}


@pytest.mark.parametrize(
    ("trainer", "validated"),
    others_long(
        [
            ({"max_steps": 7}, [3, 6, 7]),
            ({"max_steps": 6}, [3, 6]),
            ({"max_steps": -1, "max_epochs": 1, "limit_train_batches": 4}, [3, 4]),
            ({"max_steps": 5, "max_epochs": 2, "limit_train_batches": 4}, [3, 5]),
            ({"max_steps": 8, "max_epochs": 2, "limit_train_batches": 3}, [3, 6]),
            ({"max_steps": -1, "max_epochs": 2, "limit_train_batches": 4, "accumulate_grad_batches": 2}, [3, 4]),
            ({"max_steps": 4, "limit_val_batches": 0}, []),
        ],
        short=3,
    ),
)
def test_a_run_validates_at_the_set_steps_and_at_its_end(
    data: TranslationData, tmp_path: Path, trainer: dict[str, Any], validated: list[int]
) -> None:
    seen: list[int] = []
    module = module_for(data, replace(SETTINGS, validate_every=3, patience=50))
    hook: list[Callable[[Training], None]] = [lambda training: seen.append(training.progress.step)]
    training = training_for(module, data, tmp_path, on_validation=hook, **trainer)
    training.fit()
    assert seen == validated
    assert (tmp_path / "checkpoints" / "last.ckpt").exists()
    assert (tmp_path / "checkpoints" / "best.ckpt").exists() == bool(validated)


BLEUS = [10.0, 30.0, 30.0, 20.0, 40.0, 30.0, 20.0, 10.0, 50.0]


@pytest.mark.parametrize(
    ("patience", "steps", "done"),
    others_long(
        [
            (1, 9, 3),  # an equal one is not better
            (2, 9, 4),
            (3, 9, 8),
            (3, 8, 8),  # always after the last step
            (4, 9, 9),
        ],
        short=2,
    ),
)
def test_a_run_ends_after_n_validations_without_a_better_bleu(
    data: TranslationData, tmp_path: Path, patience: int, steps: int, done: int
) -> None:
    module = module_for(data, replace(SETTINGS, validate_every=1, patience=patience))
    training = training_for(module, data, tmp_path, max_steps=steps, limit_val_batches=1)
    evaluate = training.evaluate_split

    def scored(name: str) -> Any:
        found = evaluate(name)
        scores = replace(found.scores, values={"bleu": BLEUS[training.progress.step - 1]})
        return found._replace(scores=scores)

    training.evaluate_split = scored  # type: ignore[method-assign]
    training.fit()
    assert training.progress.step == training.progress.validated_step == done
    # The later of two equal ones is kept.
    best = torch.load(tmp_path / "checkpoints" / "best.ckpt", weights_only=True)
    wanted = max(range(done), key=lambda number: (BLEUS[number], number)) + 1
    assert (best["progress"]["step"], best["progress"]["best_score"]) == (wanted, BLEUS[wanted - 1])


def test_a_run_that_is_over_is_validated_and_not_again_when_it_is_resumed(tmp_path: Path) -> None:
    plain, run = settings(corpus(tmp_path), trainer__max_steps=2, test=False), tmp_path / "run"
    seen: list[int] = []
    for _ in range(2):
        train(run, plain, last(run), on_validation=[lambda training: seen.append(training.progress.step)])
        assert seen == [2]
        assert position(run)["validated_step"] == 2


def test_a_users_callback_sees_the_gradient_and_can_log(tmp_path: Path) -> None:
    """As in docs/library.md."""
    seen = []

    def log_norm(training: Training) -> None:
        norm = training.module.model.output.weight.grad.norm()  # type: ignore[union-attr]
        seen.append(float(norm))
        training.log({"norm/output": norm})

    plain = settings(corpus(tmp_path), trainer__max_steps=4, test=False, loggers=["csv"], trainer__log_every_n_steps=9)
    train(tmp_path / "run", plain, on_step=[log_norm])
    with (tmp_path / "run" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["norm/output"]]
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4]
    assert [float(row["norm/output"]) for row in rows] == pytest.approx(seen)
    assert min(seen) > 0


@pytest.mark.parametrize(
    ("longest", "asked", "chosen"),
    others_long(
        [(3, "auto", "chrf"), (4, "auto", "bleu"), (4, "chrf", "chrf"), (3, "bleu", "bleu"), (3, "loss", "loss")],
        short=2,
    ),
)
def test_chrf_chooses_where_no_reference_has_four_words(tmp_path: Path, longest: int, asked: str, chosen: str) -> None:
    data = numbers_data(tmp_path)
    lines = [(source, target) for source, target in data.settings.read("train") if len(target.split()) <= longest]
    for side, language in enumerate(("de", "en")):
        (tmp_path / f"x.{language}").write_text("".join(f"{line[side]}\n" for line in lines), encoding="utf-8")
    few = TranslationData(data.settings, data.tokenizer_settings, seed=1)
    training = training_for(module_for(few, replace(SETTINGS, choose_by=asked)), few, tmp_path, max_steps=1)
    assert training.choose_by == chosen
    training.fit()
    evaluations = {name: training.evaluate_split(name) for name in training.validation_pairs}
    assert training.progress.best_score == pytest.approx(training.chosen_score(evaluations))
    assert chosen == "loss" or chosen in evaluations["validation"].scores.values
