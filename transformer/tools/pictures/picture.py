"""Functions that all pictures share: fonts for every script, and writing whole files."""

import warnings
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from transformer.files import atomic_file
from transformer.tools.pictures.fonts import families


def width_of(names: Iterable[str]) -> float:
    """The approximate width of the longest name in inches."""
    return max(0.09 * len(name) for name in names)


def blank(width: float, height: float) -> Figure:
    """A figure of this size in inches, with a layout that leaves space for all labels."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(wspace=0.05))


def save(figure: Figure, output: Path) -> None:
    """Writes a figure into `output`, in the format of its suffix: .png, .svg, .pdf or another that matplotlib knows."""
    for axes in figure.axes:
        # Ticks get the texts of their labels only in these calls.
        axes.get_xticklabels(), axes.get_yticklabels()
    texts = figure.findobj(Text)
    chosen = families("".join(text.get_text() for text in texts))
    for text in texts:
        text.set_fontfamily(chosen)
        text.set_parse_math(False)  # names and pieces may have a $
    with warnings.catch_warnings(), atomic_file(output) as file:
        # `families` has already logged missing characters in one line.
        warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
        figure.savefig(file, format=output.suffix[1:].lower(), dpi=110, bbox_inches="tight")
