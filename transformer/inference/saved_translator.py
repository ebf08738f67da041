"""A translator that was read from a file and checked, but is not built yet."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from transformer.config import flatten
from transformer.data.directions import Direction, check_language
from transformer.data.tokenizer import Tokenizer
from transformer.inference.alignment_head import AlignmentHead
from transformer.inference.settings import Defaults
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer


@dataclass
class SavedTranslator:
    """The parts of a translator as read from a file."""

    config: ModelConfig
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: Direction
    weights: dict[str, Tensor]
    directions: Sequence[Direction]  # all that it has learned
    defaults: Defaults = Defaults()
    alignment: AlignmentHead | None = None  # found at the end of training

    def __post_init__(self) -> None:
        """Raises ValueError for text that is not the name of a language."""
        for language in chain(self.languages, *self.directions):
            check_language(language)

    def check_finetuning(self, config: ModelConfig) -> None:
        """Raises ValueError if the settings for further training differ from those of the saved model, other than in
        dropout and the sizes of vocabularies."""
        saved, asked = (dict(flatten(asdict(one), "model.")) for one in (self.config, config))
        may_differ = (".dropout", ".source_vocab_size", ".target_vocab_size")
        keys = [*asked, *(key for key in saved if key not in asked)]  # an attention that one lacks is one key
        changed = [key for key in keys if asked.get(key) != saved.get(key) and not key.endswith(may_differ)]
        if changed:
            different = ", ".join(f"{key}={asked.get(key)} (saved: {saved.get(key)})" for key in changed)
            raise ValueError(f"the model of init_from= has other settings: {different}: leave these settings out")

    def build_for_finetuning(self, config: ModelConfig) -> Transformer:
        """The model for further training with the settings of `config`. These may have another dropout, and further
        tags at the end of the vocabularies, which get new embeddings.

        Raises ValueError for other differences.
        """
        self.check_finetuning(config)
        return replace(self, config=config).build()

    def build(self) -> Transformer:
        # On the CPU and in float32, independent of torch's defaults: bfloat16 would round the weights.
        with torch.device("cpu"):
            model = Transformer(self.config).float()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                saved = self.weights[name]
                weight[: len(saved)] = saved  # everything except new tags
        return model
