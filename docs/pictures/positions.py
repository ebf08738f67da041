"""Position encodings and their effect on attention, in numbers and in pictures (Vaswani et al. 2017, 3.5)."""

import math
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from transformer.model.attention import MultiHeadAttention
from transformer.model.config import AttentionConfig
from transformer.model.positions import NoPositions, Rotary, Sinusoidal, frequencies, sinusoidal_table
from transformer.tools.pictures.picture import blank, save

SEED = 1
POSITIONS = 41  # the number of positions in the picture of waves
MAX_DISTANCE = 40  # between a query and a key, in the dot products
TOKENS = 10  # the length of the sentence in `draw_shift`


def table_figure(table: Float[Tensor, "positions dim"], title: str) -> Figure:
    figure = blank(7.5, 4.2)
    axes = figure.subplots()
    values = table.detach().float().cpu().numpy()
    # Symmetric limits, so that white is zero.
    most = abs(values).max()
    image = axes.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    axes.set_xlabel("dimension")
    axes.set_ylabel("position")
    axes.set_title(title, fontsize="medium")
    figure.colorbar(image, label="entry of the table")
    return figure


def draw_table(table: Float[Tensor, "positions dim"], title: str, output: Path) -> None:
    """Draws a table that is added to embeddings: `sinusoidal_table(…)`, or the learned positions of a model,
    `model.encoder.embedding.positions.table`. Rows beyond the longest training sentence keep their random initial
    values.
    """
    save(table_figure(table, title), output)


def waves_figure(dim: int) -> Figure:
    table = sinusoidal_table(POSITIONS, dim).numpy()
    speeds = frequencies(dim).tolist()
    # Even dimensions are sines; these dimensions show slower and slower ones that still change.
    shown = sorted({2 * (dim * part // 32) for part in (0, 2, 4, 8)})
    figure = blank(7.5, 1.5 * len(shown) + 0.4)
    between = np.linspace(0, POSITIONS - 1, 20 * (POSITIONS - 1) + 1)
    panels = figure.subplots(len(shown), sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, dimension in zip(panels, shown, strict=True):
        axes.plot(between, np.sin(between * speeds[dimension // 2]), color="C0", alpha=0.4)
        axes.plot(range(POSITIONS), table[:, dimension], ".", color="C0")
        axes.plot([1, 7], table[[1, 7], dimension], "o:", color="C3")
        one, seven = table[[1, 7], dimension].tolist()
        length = f"a wave takes {2 * math.pi / speeds[dimension // 2]:,.1f} positions"
        axes.set_title(
            f"dimension {dimension}: {length}; position 1 has {one:.2f}, position 7 has {seven:.2f}", fontsize="medium"
        )
        axes.set_ylabel("entry")
        axes.set_ylim(-1.15, 1.15)
        axes.grid(alpha=0.3)
    panels[-1].set_xlabel("position")
    return figure


def draw_waves(dim: int, output: Path) -> None:
    """Draws a few dimensions of the sinusoidal table against the position: sines with different wave lengths.

    In dimension 0 a wave takes 2π = 6.28 positions, so positions 1 and 7 have nearly the same value there: only the
    slower dimensions distinguish them.
    """
    save(waves_figure(dim), output)


def sinusoidal_dot_products(dim: int, max_distance: int) -> Float[Tensor, " distances"]:
    """PE(p) · PE(p + distance) for all distances up to `max_distance`, before and after; it is the same for every p."""
    table = sinusoidal_table(2 * max_distance + 1, dim)
    return table @ table[max_distance]


def rotary_dot_products(
    query: Float[Tensor, " head_dim"], key: Float[Tensor, " head_dim"], max_distance: int
) -> Float[Tensor, " distances"]:
    """The dot product of a query and a key `distance` positions after it, both rotated by their positions.

    With key = query it is symmetric, because both directions of rotation have the same cosine; with two different
    vectors it is not.
    """
    rotary = Rotary(len(query), 2 * max_distance + 1)
    rotated_query = rotary(query.expand(1, 1, 2 * max_distance + 1, -1))[0, 0, max_distance]
    return rotary(key.expand(1, 1, 2 * max_distance + 1, -1))[0, 0] @ rotated_query


def dot_products_figure(dim: int) -> Figure:
    query, key = torch.randn(2, dim, generator=torch.Generator().manual_seed(SEED))
    panels = {
        "sinusoidal": ("PE(p) · PE(p + distance)", sinusoidal_dot_products(dim, MAX_DISTANCE)),
        "rotary, query = key": ("rotated query · rotated key", rotary_dot_products(query, query, MAX_DISTANCE)),
        "rotary, query and key differ": ("rotated query · rotated key", rotary_dot_products(query, key, MAX_DISTANCE)),
    }
    figure = blank(13.0, 4.0)
    distances = range(-MAX_DISTANCE, MAX_DISTANCE + 1)
    for axes, (title, (label, dot_products)) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        axes.plot(distances, dot_products.numpy(), ".-", label="dot product")
        axes.plot(
            distances, dot_products.flip(0).numpy(), "--", color="C3", linewidth=1, label="before and after swapped"
        )
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("distance: position of the key − position of the query")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def draw_dot_products(dim: int, output: Path) -> None:
    """Draws q·k by distance: with sinusoidal encodings before and after are equal, with rotary ones they differ."""
    save(dot_products_figure(dim), output)


@torch.inference_mode()
def weights_at(
    attention: MultiHeadAttention, positions: nn.Module, embedded: Float[Tensor, "batch length dim"], offset: int
) -> Float[Tensor, "batch heads length length"]:
    """Self-attention over embeddings plus positions, if the sentence starts at `offset`."""
    states = positions(embedded, offset)
    record: list[Tensor] = []
    attention(states, attention.project_kv(states, offset), offset=offset, record=record)
    return record[0]


def largest_change(
    attention: MultiHeadAttention, positions: nn.Module, embedded: Float[Tensor, "batch length dim"], offset: int
) -> float:
    """The largest change of a weight if the whole sentence is shifted from position 0 to `offset`.

    `positions` are added to the embeddings; rotary positions are in the attention and add nothing (`NoPositions`). With
    rotary ones no weight changes if the score is a dot product of query and key (the additive score is not).
    """
    start, shifted = (weights_at(attention, positions, embedded, at) for at in (0, offset))
    return (shifted - start).abs().max().item()


def shift_example(
    dim: int, offset: int
) -> tuple[dict[str, tuple[MultiHeadAttention, nn.Module]], Float[Tensor, "1 tokens dim"]]:
    """One random sentence, and an attention with sinusoidal and one with rotary positions, with equal projections."""
    config = AttentionConfig(heads=1, head_dim=None, value_dim=None, dropout=0.0, bias=True, score="scaled_dot")
    most = offset + TOKENS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        added, turned = MultiHeadAttention(dim, config), MultiHeadAttention(dim, config, Rotary(dim, most))
        turned.load_state_dict(added.state_dict())
        embedded = torch.randn(1, TOKENS, dim)
    return {"sinusoidal": (added, Sinusoidal(dim, most)), "rotary": (turned, NoPositions(dim, most))}, embedded


def shift_figure(dim: int, offset: int) -> Figure:
    encodings, embedded = shift_example(dim, offset)
    rows = {name: [weights_at(*pair, embedded, at)[0, 0] for at in (0, offset)] for name, pair in encodings.items()}
    most = max(weights.max().item() for row in rows.values() for weights in row)
    most_change = max(largest_change(*pair, embedded, offset) for pair in encodings.values())
    # Compressed: without gaps between panels that have no color bar.
    figure = Figure(figsize=(10, 6.4), layout="compressed")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for (left, middle, right), (name, (start, shifted)) in zip(panels, rows.items(), strict=True):
        for axes, weights, at in ((left, start, 0), (middle, shifted, offset)):
            image = axes.imshow(weights.numpy(), cmap="Blues", vmin=0.0, vmax=most)
            axes.set_title(f"{name}, from position {at}", fontsize="medium")
        change = right.imshow((shifted - start).numpy(), cmap="RdBu", vmin=-most_change, vmax=most_change)
        right.set_title(f"largest change {largest_change(*encodings[name], embedded, offset):.2g}", fontsize="medium")
        left.set_ylabel("token looking")
        figure.colorbar(image, ax=middle, label="weight")
        figure.colorbar(change, ax=right, label="change of the weight")
    for axes in panels[-1]:
        axes.set_xlabel("token looked at")
    return figure


def draw_shift(dim: int, offset: int, output: Path) -> None:
    """Draws the attention weights of a shifted sentence. They change with sinusoidal positions, which are added before
    the projections to queries and keys; they do not change with rotary ones, which rotate the projections.

    Both rows have the same random sentence and the same untrained projections.
    """
    save(shift_figure(dim, offset), output)
