"""Attention weights as heat maps, both axes named by their tokens."""

from pathlib import Path

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor


def draw_attention(
    weights: Float[Tensor, "queries keys"], queries: list[str], keys: list[str], title: str, output: Path
) -> None:
    """Draws one matrix of weights: entry (row, column) is the share of the row's attention that goes to the column."""
    size = (1.5 + 0.32 * len(keys), 1.2 + 0.28 * len(queries))
    figure = Figure(figsize=(max(4.0, size[0]), max(3.0, size[1])), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights.float().cpu().numpy(), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(keys)), [piece.replace("▁", " ") for piece in keys], rotation=90)
    axes.set_yticks(range(len(queries)), [piece.replace("▁", " ") for piece in queries])
    axes.set_xlabel("looked at (keys)")
    axes.set_ylabel("looking (queries)")
    axes.set_title(title)
    figure.colorbar(image, label="share of the row's attention")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)
