"""The settings of a picture of attention weights, read without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformer.config import Settings

Attention = Literal["cross", "encoder", "decoder"]
SUFFIXES = (".png", ".svg", ".pdf")  # of pictures


@dataclass(frozen=True)
class View(Settings):
    """The weights that a picture shows."""

    attention: Attention = "cross"
    """cross | encoder | decoder"""
    layer: Annotated[int, ">= 1", "<= 1000000"] | None = None
    """counted from 1; by default the last layer"""
    head: Annotated[int, ">= 1", "<= 1000000"] | None = None
    """counted from 1; by default the mean of all heads"""
