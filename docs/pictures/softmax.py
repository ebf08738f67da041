"""Why scores are divided by √H: without that, the softmax saturates for wide heads (Vaswani et al. 2017, 3.2.1)."""

from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from transformer.model.attention import attention_weights
from transformer.tools.pictures.picture import blank, save

HEAD_DIMS = tuple(2**power for power in range(1, 11))
# Sentences, queries of each, and the keys that these share: enough for smooth lines.
SENTENCES, QUERIES, KEYS = 64, 32, 32
SEED = 1


class Sharpness(NamedTuple):
    """Means over many random queries.

    `largest` is the largest weight; `gradient` is Σ w(1 - w), the trace of the softmax's Jacobian: the gradient that
    reaches the scores, 0 for a one-hot row.
    """

    largest: float
    gradient: float


def sharpness(head_dim: int, scale: float) -> Sharpness:
    """For queries and keys of independent entries with mean 0 and variance 1: q·k then has the variance head_dim."""
    generator = torch.Generator().manual_seed(SEED)
    queries = torch.randn(SENTENCES, 1, QUERIES, head_dim, generator=generator)
    keys = torch.randn(SENTENCES, 1, KEYS, head_dim, generator=generator)
    weights = attention_weights(scale * queries @ keys.transpose(-2, -1))
    gradient = (weights * (1 - weights)).sum(dim=-1)
    return Sharpness(weights.amax(dim=-1).mean().item(), gradient.mean().item())


def softmax_figure() -> Figure:
    lines = {
        "scaled: q · k / √H": [sharpness(dim, dim**-0.5) for dim in HEAD_DIMS],
        "unscaled: q · k": [sharpness(dim, 1.0) for dim in HEAD_DIMS],
    }
    figure = blank(10.0, 3.8)
    left, right = figure.subplots(1, 2)
    for label, values in lines.items():
        left.plot(HEAD_DIMS, [value.largest for value in values], ".-", label=label)
        right.plot(HEAD_DIMS, [value.gradient for value in values], ".-", label=label)
    left.axhline(1 / KEYS, color="0.5", linestyle=":", label=f"all {KEYS} keys alike: 1/{KEYS}")
    left.set_ylabel("largest weight (mean over queries)")
    right.set_ylabel("gradient passed on: Σ w (1 - w)")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(HEAD_DIMS, [str(dim) for dim in HEAD_DIMS])
        axes.set_xlabel("head dimension H")
        axes.set_ylim(0, 1.04)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw_softmax(output: Path) -> None:
    """Draws the sharpness of the softmax, and the gradient that it passes on, by head width, with and without
    scaling."""
    save(softmax_figure(), output)
