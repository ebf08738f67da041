"""A trainable encoder-decoder Transformer for translation, to understand, to train and to use."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.inference.translator import Translator
    from transformer.model.config import ModelConfig
    from transformer.model.transformer import Transformer

__version__ = "0.2.0"
__all__ = ["ModelConfig", "Transformer", "Translator"]
PLACES = {
    "ModelConfig": "transformer.model.config",
    "Transformer": "transformer.model.transformer",
    "Translator": "transformer.inference.translator",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: importing torch takes seconds, and `--help` does not need it."""
    if name in PLACES:
        return getattr(importlib.import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Includes public names that are not imported yet, for `help` and the completion of a notebook."""
    return sorted({*globals(), *__all__})
