"""What a checkpoint holds so that it needs nothing else, and what of it counts when a run goes on."""

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from transformer.inference import Translator
from transformer.inference.checkpoint import describe, digest, tensors
from transformer.training.optim import may_be_fused


class SelfContainedCheckpoint(Callback):
    """Puts tokenizers and a digest into every checkpoint, as plain tensors and text. Going on from one, the optimizer's
    settings of now stand above the saved ones."""

    def __init__(self, translator: Translator) -> None:
        self.model, self.tokenizers, self.languages = translator.model, translator.tokenizers, translator.languages

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # Their weights are those that the checkpoint holds, which may be an average.
        everything = tensors(self.model, self.tokenizers)
        checkpoint["tokenizers"] = {name: everything[name] for name in everything if name.startswith("tokenizer.")}
        checkpoint["weights"] = [name for name in everything if not name.startswith("tokenizer.")]
        everything |= {name: checkpoint["state_dict"][f"model.{name}"].cpu() for name in checkpoint["weights"]}
        checkpoint["sha256"] = digest(describe(self.model, self.tokenizers, self.languages), everything)

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Raises ValueError for a checkpoint of other tokenizers."""
        ours = tensors(self.model, self.tokenizers)
        if any(not torch.equal(saved, ours[name]) for name, saved in checkpoint["tokenizers"].items()):
            raise ValueError(
                "the checkpoint was trained with other tokenizers: the corpus or its settings have changed"
            )
        settings: Any = module.settings
        groups = [group for state in checkpoint["optimizer_states"] for group in state["param_groups"]]
        fused = may_be_fused(str(trainer.precision))
        for number, group in enumerate(groups):
            decay = settings.weight_decay if number == 0 else 0.0
            group["lr"] *= settings.learning_rate / group["initial_lr"]
            group |= {"initial_lr": settings.learning_rate, "weight_decay": decay, "betas": tuple(settings.betas)}
            group["fused"] = fused  # another precision than the one saved may allow it, or not
        for schedule in checkpoint["lr_schedulers"]:
            schedule["base_lrs"] = [settings.learning_rate] * len(schedule["base_lrs"])
