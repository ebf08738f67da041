"""Which attention weights to look at: settings, read without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from transformer.config import Settings

Attention = Literal["cross", "encoder", "decoder"]
SUFFIXES = (".png", ".svg", ".pdf")  # of pictures


@dataclass(frozen=True)
class View(Settings):
    """Which weights a picture shows."""

    attention: Attention = "cross"
    """cross | encoder | decoder"""
    layer: Annotated[int, ">= 1", "<= 1000000"] | None = None
    """counted from 1; by default the last"""
    head: Annotated[int, ">= 1", "<= 1000000"] | None = None
    """counted from 1; by default the mean of all"""
