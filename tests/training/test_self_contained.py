"""A checkpoint is gone on from with its own tokenizers only."""

from pathlib import Path
from typing import Any

import pytest
from transformer.training.callbacks.self_contained import SelfContainedCheckpoint

from tests.data.corpora import settings, write
from tests.factories import tokenizer_settings
from tests.training.small import module_for, trainer_for
from transformer.data.datamodule import TranslationData


def test_a_checkpoint_of_other_tokenizers_is_refused(tmp_path: Path) -> None:
    modules = []
    for word in ("Hund", "Katze"):
        (folder := tmp_path / word).mkdir()
        write(folder, "x.de", ["ein", word])
        write(folder, "x.en", ["a", "pet"])
        modules.append(module_for(TranslationData(settings(folder), tokenizer_settings("word", 100), seed=1)))
    trainer, (first, second) = trainer_for(tmp_path), modules
    checkpoint: dict[str, Any] = {"state_dict": first.state_dict(), "optimizer_states": [], "lr_schedulers": []}
    SelfContainedCheckpoint(first.translator).on_save_checkpoint(trainer, first, checkpoint)
    with pytest.raises(ValueError, match="trained with other tokenizers: the corpus or its settings have changed"):
        SelfContainedCheckpoint(second.translator).on_load_checkpoint(trainer, second, checkpoint)
