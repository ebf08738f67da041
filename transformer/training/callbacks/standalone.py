"""What a checkpoint holds so that it needs nothing else, and what of it counts when a run goes on."""

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from transformer.inference import Translator
from transformer.inference.checkpoint import describe, digest, tensors


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
        saved = [group for state in checkpoint["optimizer_states"] for group in state["param_groups"]]
        settings: Any = module
        for group, now in zip(saved, settings.build_optimizer().param_groups, strict=True):
            rate = group["lr"] * (now["lr"] / group["initial_lr"])
            group |= {key: value for key, value in now.items() if key != "params"}
            group |= {"lr": rate, "initial_lr": now["lr"]}
        for schedule in checkpoint["lr_schedulers"]:
            schedule["base_lrs"] = [group["initial_lr"] for group in saved]
