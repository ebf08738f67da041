"""One training step and one validation, as Lightning calls them: batch → loss, validation set → BLEU."""

from copy import copy
from dataclasses import asdict
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import MeanMetric

from transformer.data.batching import Batch
from transformer.data.corpus import split_name
from transformer.data.directions import Direction, direction_name
from transformer.data.text_files import Pair
from transformer.data.tokenizer import EOS, PAD
from transformer.evaluation import Hypotheses, Scores
from transformer.evaluation.corpus_bleu import CorpusBLEU
from transformer.inference import Translator
from transformer.inference.search import SearchSettings
from transformer.model import Transformer
from transformer.model.attention import AttentionRecord
from transformer.training.callbacks.nonfinite import NonFiniteGuard
from transformer.training.callbacks.train_progress import share_of_time
from transformer.training.config import TrainingSettings
from transformer.training.guided_alignment import GuidedAlignment
from transformer.training.loss import linear_cross_entropy, r_drop_loss
from transformer.training.optim import OPTIMIZERS, can_be_fused, learning_rate_factor
from transformer.training.regularization import regularize

COMPILED = ("encode", "decode_hidden")


def compile_for_training(model: Transformer, backend: str) -> None:
    """Compiles the forward pass over whole sentences; the single steps of a search are not compiled."""
    for name in COMPILED:
        setattr(model, name, torch.compile(getattr(model, name), backend=backend, dynamic=True))


def end_compiling(model: Transformer) -> None:
    """Back to the methods as written: for the few passes after training it takes longer to compile than to run."""
    for name in COMPILED:
        vars(model).pop(name, None)


def twice(batch: Batch) -> Batch:
    """The sentences of a batch, then the same once more."""
    return Batch._make(part if part is None else torch.cat([part, part]) for part in batch)


class TranslationModule(LightningModule):
    """Trains a Translator's model.

    pairs: source and reference of every split that is translated and scored. Splits of validation are called
        `validation` and, for other directions, `validation.fr-en`, …; all others are tests
    directions: the languages of each of these splits
    validation_search, test_search: how validation and test translate
    metrics: what the test is scored by, names in METRICS
    """

    def __init__(
        self,
        translator: Translator,
        settings: TrainingSettings,
        pairs: dict[str, list[Pair]],
        validation_search: SearchSettings,
        test_search: SearchSettings,
        metrics: list[str],
        directions: dict[str, Direction],
        guided_alignment: GuidedAlignment | None = None,
    ) -> None:
        super().__init__()
        self.translator, self.model = translator, translator.model
        # A list, as a step needs them three times: to look through all modules takes a millisecond each time.
        self.weights = list(self.model.parameters())
        self.settings, self.pairs, self.metrics = settings, pairs, metrics
        regularize(self.model, settings.regularization)
        if settings.compile:
            compile_for_training(self.model, settings.compile)
        self.validation_search, self.test_search = validation_search, test_search
        #: What translates each split: the same model, asked for the split's direction. Its warnings name the split.
        self.translators = {name: copy(translator.in_direction(*directions[name])) for name in pairs}
        for name, one in self.translators.items():
            one.lines_of, one.greedy_scores = name, False
        validation = ("validation", *(split_name("validation", direction) for direction in directions.values()))
        self.validation_splits = [name for name in pairs if name in validation]
        self.test_splits = [name for name in pairs if name not in self.validation_splits]
        bleus = (CorpusBLEU(self.translators[name].target_language) for name in self.validation_splits)
        self.validation_bleu = torch.nn.ModuleList(bleus)
        self.validation_loss = MeanMetric()
        self.test_hypotheses = Hypotheses()
        self.test_scores: dict[str, Scores] = {}
        # Since the last update: the sum of the loss, which must be finite, that of the loss that is logged, and the
        # target tokens, which divide both.
        self.step_sums: Tensor | None = None
        self.step_loss = torch.zeros(())  # the first of them, of all processes
        self.tokens_seen: Tensor | int = 0  # target tokens since this process began
        self.nonfinite_guard, self.guided_alignment = NonFiniteGuard(), guided_alignment
        self.save_hyperparameters({"translator": translator.description(), "training": asdict(settings)}, logger=False)

    def loss(self, batch: Batch, record: AttentionRecord | None = None) -> tuple[Tensor, Tensor]:
        """The loss summed over the batch's target tokens (in nats), and the number of these tokens. In training it has
        the label smoothing and the R-Drop of the settings; in validation it is the plain cross-entropy. `record`
        collects the decoder's attention."""
        smoothing = self.settings.label_smoothing if self.training else 0.0
        r_drop = self.settings.r_drop if self.training else 0.0
        output, labels, tokens = self.model.output, batch.labels, (batch.labels != PAD).sum()
        if r_drop:
            batch = twice(batch)
        memory = self.model.encode(batch.source, batch.source_visible)
        states = self.model.decode_hidden(batch.inputs, memory, record)
        if r_drop:
            states = states.view(2, *labels.shape, -1)
            return r_drop_loss(states, output.weight, labels, smoothing, r_drop, PAD, output.bias), tokens
        return linear_cross_entropy(states, output.weight, labels, smoothing, PAD, output.bias), tokens

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """Returns the *sum* of the losses of the target tokens, not their mean: `on_before_optimizer_step` divides the
        gradient by all tokens of the step. During guided alignment its loss is added."""
        guide, step = self.guided_alignment, self.trainer.global_step
        if guide is not None and not guide.weight(step):
            guide = self.guided_alignment = None  # its table takes much memory
        cross: list[Tensor] = []  # the weights of each layer's cross-attention
        total, tokens = self.loss(batch, AttentionRecord(cross=cross) if guide else None)
        logged = total.detach()
        if guide is not None:
            total = total + guide.weight(step) * guide.loss(cross, batch)
        self.nonfinite_guard.add(batch_index, batch, total)
        sums = torch.stack([total.detach().float(), logged.float(), tokens.float()])
        self.step_sums = sums if self.step_sums is None else self.step_sums + sums
        return total

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Divides the gradient by all target tokens of the step, of every accumulated batch and every process, and logs
        the loss per token, without that of guided alignment."""
        assert self.step_sums is not None
        if self.trainer.world_size > 1:  # strategy.reduce would also let the CPU wait for the GPU
            torch.distributed.all_reduce(self.step_sums)
        loss, logged, tokens = self.step_sums
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        # By now Lightning holds their mean over processes and accumulated batches, not the sum.
        parts = self.trainer.world_size * self.trainer.accumulate_grad_batches
        torch._foreach_mul_(gradients, (parts / tokens).to(gradients[0].device))
        self.tokens_seen = self.tokens_seen + tokens.long()
        self.step_loss, self.step_sums = loss, None
        self.log("train/loss", logged / tokens, prog_bar=True)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips as Lightning does, and stops the training before an update that is not finite. (Lightning's own
        clipping refuses a fused optimizer also under bf16; only float16 has a gradient scaler, which is the reason.)"""
        norm = torch.nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
        self.nonfinite_guard.check(self.trainer, optimizer, self.step_loss, norm)
        if gradient_clip_val and gradient_clip_algorithm == "value":
            torch.nn.utils.clip_grad_value_(self.weights, gradient_clip_val)
        elif gradient_clip_val:
            torch.nn.utils.clip_grads_with_norm_(self.weights, gradient_clip_val, norm)

    def build_optimizer(self) -> torch.optim.Optimizer:
        settings, fused = self.settings, can_be_fused(str(self.trainer.precision))
        build, (first, second) = OPTIMIZERS[settings.optimizer], settings.betas
        return build(self.model, settings.learning_rate, (first, second), settings.weight_decay, fused)

    def configure_optimizers(self) -> Any:
        optimizer, total_steps = self.build_optimizer(), self.trainer.estimated_stepping_batches
        schedule, warmup_steps = self.settings.schedule, self.settings.warmup_steps
        factor = learning_rate_factor(schedule, warmup_steps, total_steps, share_of_time(self.trainer))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}

    def on_validation_start(self) -> None:
        self.nonfinite_guard.flush(self.trainer)

    def validation_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        split = self.validation_splits[dataloader_idx]
        total, tokens = self.loss(batch)
        self.validation_loss.update(total / tokens, tokens)
        hypotheses = self._translate(split, batch, self.validation_search)
        references = [self.pairs[split][i][1] for i in batch.indices.tolist()]
        self.validation_bleu[dataloader_idx].update(hypotheses, references)  # type: ignore[operator]

    def on_validation_epoch_end(self) -> None:
        """`validation/bleu` is the mean of all directions, each of which counts alike, however many pairs it has."""
        bleus = [metric.compute().float() for metric in self.validation_bleu]  # type: ignore[operator]
        self.log("validation/loss", self.validation_loss.compute().float(), prog_bar=True)
        self.log("validation/bleu", torch.stack(bleus).mean(), prog_bar=True)
        if len(bleus) > 1:
            for split, bleu in zip(self.validation_splits, bleus, strict=True):
                self.log(f"validation/bleu.{direction_name(self.translators[split].languages)}", bleu)
        for metric in (self.validation_loss, *self.validation_bleu):
            metric.reset()  # type: ignore[operator]

    def test_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        split = self.test_splits[dataloader_idx]
        self.test_hypotheses.add(split, batch.indices.tolist(), self._translate(split, batch, self.test_search))

    def on_test_epoch_end(self) -> None:
        """Every process knows every score."""
        self.test_hypotheses.gather()
        languages = {name: translator.target_language for name, translator in self.translators.items()}
        self.test_scores = self.test_hypotheses.scores(self.pairs, languages, self.metrics)
        for split, scores in self.test_scores.items():
            self.log_dict({f"{split}/{name}": value for name, value in scores.values.items()})

    def _translate(self, split: str, batch: Batch, search: SearchSettings) -> list[str]:
        """The best translation of each source of a batch. Sampling depends on the line's number, so batches and
        processes change nothing but rounding."""
        lines = [index + 1 for index in batch.indices.tolist()]
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        # The ids of a pair over data.max_length are cut: its source is translated as a text.
        cut = set(data.split(split).too_long.tolist())
        sources = [
            [] if line in cut else ids[: ids.index(EOS)] for line, ids in zip(lines, batch.source.tolist(), strict=True)
        ]
        translator = self.translators[split]
        translations = translator.n_best_ids(sources, search, line_numbers=lines)
        if whole := {index: line for index, line in enumerate(lines) if line in cut}:
            texts = [self.pairs[split][line - 1][0] for line in whole.values()]
            found = translator.n_best(texts, search, line_numbers=list(whole.values()))
            for index, hypotheses in zip(whole, found, strict=True):
                translations[index] = hypotheses
        return [hypotheses[0].text for hypotheses in translations]
