"""What makes a checkpoint self-contained: whoever has it needs no other file to translate."""

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from transformer.inference import Translator
from transformer.inference.checkpoint import digest, tensors


class SelfContainedCheckpoint(Callback):
    """Puts tokenizers and a digest into every checkpoint, as plain tensors and text."""

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
