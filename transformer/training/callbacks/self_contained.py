"""What makes a checkpoint self-contained, and which of its settings hold when a run goes on from it."""

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from transformer.inference import Translator
from transformer.inference.checkpoint import digest, tensors


class SelfContainedCheckpoint(Callback):
    """Puts tokenizers and a digest into every checkpoint, as plain tensors and text. When a run goes on from one, the
    optimizer's current settings replace the saved ones."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # The digest is of the checkpoint's weights, which may be an average.
        content = tensors(self.translator.model, self.translator.tokenizers)
        checkpoint["tokenizers"] = {name: content[name] for name in content if name.startswith("tokenizer.")}
        checkpoint["weights"] = [name for name in content if not name.startswith("tokenizer.")]
        content |= {name: checkpoint["state_dict"][f"model.{name}"].cpu() for name in checkpoint["weights"]}
        checkpoint["sha256"] = digest(self.translator.description(), content)

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Raises ValueError for a checkpoint of other tokenizers."""
        current = tensors(self.translator.model, self.translator.tokenizers)
        if any(not torch.equal(saved, current[name]) for name, saved in checkpoint["tokenizers"].items()):
            raise ValueError(
                "the checkpoint was trained with other tokenizers: the corpus or its settings have changed"
            )
        saved_groups = [group for state in checkpoint["optimizer_states"] for group in state["param_groups"]]
        translation_module: Any = module
        current_groups = translation_module.build_optimizer().param_groups
        for group, now in zip(saved_groups, current_groups, strict=True):
            group |= {key: value for key, value in now.items() if key != "params"} | {"initial_lr": now["lr"]}
        for schedule in checkpoint["lr_schedulers"]:
            schedule["base_lrs"] = [group["initial_lr"] for group in saved_groups]

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        # What a checkpoint says of the next step's rate may be by another schedule.
        for config in trainer.lr_scheduler_configs:
            schedule: Any = config.scheduler
            groups = zip(schedule.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True)
            for group, peak, factor in groups:
                group["lr"] = peak * factor(schedule.last_epoch)
