"""Tensors in, tensors out: no text, no Lightning, no Hydra.

Read `attention`, `positions`, `layers`, `transformer`, in this order.
"""

from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer

__all__ = ["ModelConfig", "Transformer"]
