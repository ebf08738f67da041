"""From a trained model to translations: no Lightning. Read `search`, then `translator`."""

from transformer.inference.translator import Translator

__all__ = ["Translator"]
