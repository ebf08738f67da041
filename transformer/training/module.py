"""One training step, batch → loss, as an ordinary LightningModule, for `training.loop` or Lightning's Trainer."""

from dataclasses import asdict
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from transformer.data.batching import Batch
from transformer.data.tokenizer import PAD
from transformer.inference.model_file import digest, tensors
from transformer.inference.translator import Translator
from transformer.kernels.linear_cross_entropy import linear_cross_entropy, r_drop_loss
from transformer.model.attention import AttentionRecord
from transformer.model.transformer import Transformer
from transformer.training.config import OPTIMIZERS, TrainingSettings
from transformer.training.optim import learning_rate_factor
from transformer.training.regularization import regularize

COMPILED = ("encode", "decode_hidden")


def compile_for_training(model: Transformer, backend: str) -> None:
    """Compiles the forward pass over whole sentences; the single steps of a search are not compiled."""
    for name in COMPILED:
        setattr(model, name, torch.compile(getattr(model, name), backend=backend, dynamic=True))


def end_compiling(model: Transformer) -> None:
    """Removes the compiled methods: for the few passes after training it takes longer to compile than to run."""
    for name in COMPILED:
        vars(model).pop(name, None)


def twice(batch: Batch) -> Batch:
    """The sentences of a batch, followed by the same sentences again."""
    return Batch._make(part if part is None else torch.cat([part, part]) for part in batch)


class TranslationModule(LightningModule):
    """Trains a Translator's model. Its checkpoint needs no other file: `Translator.load` reads it."""

    def __init__(self, translator: Translator, settings: TrainingSettings) -> None:
        super().__init__()
        self.translator, self.model, self.settings = translator, translator.model, settings
        # A step appends the decoder's attention here, for the loss of `guided_alignment`.
        self.record: AttentionRecord | None = None
        regularize(self.model, settings.regularization)
        if settings.compile:
            compile_for_training(self.model, settings.compile)
        self.save_hyperparameters({"translator": translator.description(), "training": asdict(settings)}, logger=False)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss summed over the batch's target tokens (in nats), and the number of these tokens. Training uses the
        label smoothing and the R-Drop of the settings; validation uses the plain cross-entropy."""
        smoothing = self.settings.label_smoothing if self.training else 0.0
        r_drop = self.settings.r_drop if self.training else 0.0
        output, labels, tokens = self.model.output, batch.labels, (batch.labels != PAD).sum()
        if r_drop:
            batch = twice(batch)
        memory = self.model.encode(batch.source, batch.source_visible)
        states = self.model.decode_hidden(batch.inputs, memory, self.record)
        if r_drop:
            states = states.view(2, *labels.shape, -1)
            return r_drop_loss(states, output.weight, labels, smoothing, r_drop, PAD, output.bias), tokens
        return linear_cross_entropy(states, output.weight, labels, smoothing, PAD, output.bias), tokens

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The mean loss of the batch's target tokens."""
        total, tokens = self.loss(batch)
        return total / tokens

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Logs `validation/loss`, the mean over all target tokens, for Lightning's Trainer. (`training.loop` validates
        with `evaluation.evaluate`, which also translates.)"""
        total, tokens = self.loss(batch)
        self.log("validation/loss", total / tokens, batch_size=int(tokens), add_dataloader_idx=False, sync_dist=True)

    def build_optimizer(self, fused: bool = False) -> torch.optim.Optimizer:
        settings, (first, second) = self.settings, self.settings.betas
        build = OPTIMIZERS[settings.optimizer]
        return build(self.model, settings.learning_rate, (first, second), settings.weight_decay, fused)

    def configure_optimizers(self) -> Any:
        """For Lightning's Trainer."""
        optimizer, total_steps = self.build_optimizer(), self.trainer.estimated_stepping_batches
        factor = learning_rate_factor(self.settings.schedule, self.settings.warmup_steps, total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds tokenizers and a digest, as plain tensors and text, so that the checkpoint alone can translate."""
        content = tensors(self.model, self.translator.tokenizers)
        checkpoint["tokenizers"] = {name: content[name] for name in content if name.startswith("tokenizer.")}
        checkpoint["weights"] = [name for name in content if not name.startswith("tokenizer.")]
        # The digest is of the weights in the checkpoint: a callback of Lightning's Trainer may have replaced them.
        content |= {name: checkpoint["state_dict"][f"model.{name}"].cpu() for name in checkpoint["weights"]}
        checkpoint["sha256"] = digest(self.translator.description(), content)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raises ValueError for a checkpoint of other tokenizers."""
        current = tensors(self.model, self.translator.tokenizers)
        if any(not torch.equal(saved, current[name]) for name, saved in checkpoint["tokenizers"].items()):
            raise ValueError(
                "the checkpoint was trained with other tokenizers: the corpus or its settings have changed"
            )
