"""A translator between its file and its use: checked, not yet built."""

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
    alignment: AlignmentHead | None = None  # as training has found it, at its end

    def __post_init__(self) -> None:
        """Raises ValueError for what is no name of a language."""
        for language in chain(self.languages, *self.directions):
            check_language(language)

    def check_finetuning(self, config: ModelConfig) -> None:
        """Raises ValueError that names what differs in the settings of a model to be trained further, but for dropout
        and the sizes of vocabularies."""
        saved, asked = (dict(flatten(asdict(one), "model.")) for one in (self.config, config))
        may_differ = (".dropout", ".source_vocab_size", ".target_vocab_size")
        keys = [*asked, *(key for key in saved if key not in asked)]  # an attention that one of them lacks is one key
        changed = [key for key in keys if asked.get(key) != saved.get(key) and not key.endswith(may_differ)]
        if changed:
            different = ", ".join(f"{key}={asked.get(key)} (saved: {saved.get(key)})" for key in changed)
            raise ValueError(
                f"init_from= holds another model than the settings ask for: {different}: leave these settings out"
            )

    def build_for_finetuning(self, config: ModelConfig) -> Transformer:
        """The model, to be trained further with the settings of `config`, which may differ in dropout, and in tags at
        the end of its vocabularies: their embeddings are new.

        Raises ValueError that names what else differs.
        """
        self.check_finetuning(config)
        return replace(self, config=config).build()

    def build(self) -> Transformer:
        # On the CPU and in float32, whatever torch's defaults are: in bfloat16 the weights would be rounded.
        with torch.device("cpu"):
            model = Transformer(self.config).float()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                saved = self.weights[name]
                weight[: len(saved)] = saved  # all of it, but for tags that are new
        return model
