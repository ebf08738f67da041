"""A trainable encoder-decoder Transformer for translation, to understand, to train and to use."""

from transformer.inference import Translator
from transformer.model import ModelConfig, Transformer

__all__ = ["ModelConfig", "Transformer", "Translator"]
