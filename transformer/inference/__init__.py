"""From a trained model to translations: no Lightning. Read `search`, then `translator`; `files` is how it is kept."""

from transformer.inference.translator import Translator

__all__ = ["Translator"]
