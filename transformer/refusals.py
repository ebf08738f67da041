"""What a run is refused for before it does any work, beside what `settings` sees in a single value."""

from pathlib import Path
from typing import Any

from transformer.data.datamodule import TranslationData
from transformer.model import ModelConfig
from transformer.settings import from_plain
from transformer.storage.whole import check_writable


def check_beginning(folder: Path, model: dict[str, Any], trainer: dict[str, Any]) -> None:
    """Raises OSError for a folder that cannot be written, and ValueError for settings that are wrong whatever the
    corpus."""
    check_writable(folder)
    # Vocabularies of some size stand in for those that the tokenisers will have.
    from_plain(ModelConfig, model | {"source_vocabulary": 100, "target_vocabulary": 100}, "model")
    if trainer.get("limit_test_batches") == 0:
        raise ValueError("trainer.limit_test_batches=0 is not allowed: a run ends with its test; 1 makes it short")


def check_lengths(data: TranslationData, config: ModelConfig) -> None:
    """Raises ValueError when a sentence that is kept is longer than the model's positions."""
    for name in data.settings.splits:
        longest = data.split(name).longest + 1
        if longest > config.max_length:
            raise ValueError(
                f"model.max_length={config.max_length} is less than the longest sentence of {name} needs ({longest} "
                f"tokens with its end): raise it to {longest}, or lower data.max_length to {config.max_length - 1}"
            )
