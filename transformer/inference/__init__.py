"""From a trained model to translations: no Lightning. Read `translator`, then `search`."""

from transformer.inference.translator import Translator

__all__ = ["Translator"]
