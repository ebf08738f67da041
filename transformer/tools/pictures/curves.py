"""A picture of a run: loss, BLEU and learning rate against the step."""

import csv
from pathlib import Path

from matplotlib.figure import Figure

from transformer.files import read_file
from transformer.tools.pictures.picture import blank, save

# Losses are averaged with this number of neighbors on each side, because one batch alone says little: its sentences
# have similar lengths, and long ones are harder.
AROUND = 4
# The labels say why the two losses differ in height.
LABELS = {
    "train/loss": "training, with label smoothing if set",
    "validation/loss": "validation, without",
    "validation/bleu": "mean of all directions",
}
Points = tuple[list[int], list[float]]


def read_metrics(path: Path) -> dict[str, Points]:
    """The columns of a metrics.csv as (steps, values), without gaps. Raises ValueError that names any other file."""
    columns: dict[str, Points] = {}
    try:
        for row in csv.DictReader(read_file(path).decode("utf-8").splitlines()):
            for name, value in row.items():
                if value and name not in ("step", "epoch"):
                    steps, values = columns.setdefault(name, ([], []))
                    steps.append(int(row["step"]))
                    values.append(float(value))
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is no log of a run ({error})") from error
    return columns


def running_mean(values: list[float]) -> list[float]:
    """Each value's mean with up to AROUND before and after it."""
    windows = [values[max(0, index - AROUND) : index + AROUND + 1] for index in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def curves_figure(columns: dict[str, Points]) -> Figure:
    panels = [
        ("loss (nats per token)", ["train/loss", "validation/loss"]),
        ("validation BLEU", ["validation/bleu", *(name for name in columns if name.startswith("validation/bleu."))]),
        ("learning rate", ["train/learning_rate"]),
    ]
    figure = blank(13.0, 3.6)
    for axes, (label, names) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for name in names:
            steps, values = columns.get(name, ([], []))
            if name == "train/loss":
                axes.plot(steps, values, alpha=0.25, color="C0")
                values = running_mean(values)
            label_of_curve = LABELS.get(name, name.removeprefix("validation/bleu."))
            axes.plot(steps, values, label=label_of_curve, marker="." if name.startswith("validation") else "")
        axes.locator_params(axis="x", nbins=6)  # the numbers of a long run are wide
        axes.set_xlabel("step")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        if len(names) > 3:  # the legend is beside the panel, because curves fill the panel
            axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        elif len(names) > 1:
            axes.legend(fontsize="small")
    return figure


def draw_curves(metrics: Path, output: Path) -> None:
    """Draws the three panels into `output` (.png, .svg, .pdf)."""
    save(curves_figure(read_metrics(metrics)), output)
