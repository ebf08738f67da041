"""Compares a mistake with the model without it: a table, pictures of curves and attention, and the two pages."""

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from docs.mistakes.symptoms import GREEDY, SOUP, SYMPTOMS, VIEWS, read
from docs.mistakes.zoo import MISTAKES, REFERENCES
from transformer.data.text_files import Pair
from transformer.evaluation.metrics import bleu
from transformer.files import atomic_write
from transformer.inference.translator import Translator
from transformer.tools.pictures.attention_maps import NAMES, SIDES
from transformer.tools.pictures.curves import Points, read_metrics, running_mean
from transformer.tools.pictures.picture import save

SENTENCES = 100  # the number of test sentences for symptoms; BLEU is over all
MAX_EXAMPLE = 110  # the most characters of a translation that is shown


class Attention(NamedTuple):
    """Weights (the mean over the heads of the last layer), and the pieces of the rows and columns."""

    weights: Tensor
    queries: list[str]
    keys: list[str]


class Results(NamedTuple):
    """The results of a run: its training curves, the numbers that every run has, the numbers that show its mistake, a
    translation, and the attention to draw, if any."""

    curves: dict[str, Points]
    numbers: dict[str, str]
    symptoms: dict[str, str]
    example: str
    attention: Attention | None


class Comparison(NamedTuple):
    name: str
    reference: Results
    broken: Results


def look(translator: Translator, name: str) -> Attention:
    view = VIEWS[name]
    reading = read(translator, view.pair, view.padding)
    source = [translator.source_tokenizer.piece(id) for id in reading.source]
    target = [translator.target_tokenizer.piece(id) for id in reading.inputs]
    queries, keys = (source if side == "source" else target for side in SIDES[view.attention])
    return Attention(getattr(reading.record, view.attention)[-1][0].mean(dim=0), queries, keys)


def measure(name: str, folder: Path, test: list[Pair]) -> Results:
    # The last weights, not the best: if every BLEU is 0, the best ones may be those of the first validation.
    translator, curves = Translator.load(folder / "checkpoints" / "last.ckpt"), read_metrics(folder / "metrics.csv")
    steps, reported = curves["validation/bleu"]
    sources, targets = map(list, zip(*test, strict=True))
    score = bleu(translator.target_language).corpus_score(translator.translate(sources, GREEDY), [targets]).score
    numbers = {
        "training loss": f"{running_mean(curves['train/loss'][1])[-1]:.2f}",
        "validation loss": f"{curves['validation/loss'][1][-1]:.2f}",
        f"BLEU that the run reports, step {steps[0]} / {steps[-1]}": f"{reported[0]:.1f} / {reported[-1]:.1f}",
        "BLEU of the translated test set": f"{score:.1f}",
    }
    symptoms = SYMPTOMS[name](translator, test[:SENTENCES]) if name in SYMPTOMS else {}
    example = translator.translate(SOUP[0], GREEDY)
    shown = (example if len(example) <= MAX_EXAMPLE else f"{example[:MAX_EXAMPLE]} …") or "(empty)"
    return Results(curves, numbers, symptoms, shown, look(translator, name) if name in VIEWS else None)


def compare(name: str, runs: Path, test: list[Pair]) -> Comparison:
    """Measures the run of a mistake (with the mistake), and its reference (without it)."""
    mistake = MISTAKES[name]
    reference = measure(name, runs / mistake.reference, test)
    with mistake.made():
        return Comparison(name, reference, measure(name, runs / name, test))


def table(comparison: Comparison) -> str:
    """All measurements of one mistake, in Markdown."""
    _, reference, broken = comparison
    labels = {**reference.numbers, **reference.symptoms, f"“{SOUP[0]}”": reference.example}
    values = [*broken.numbers.values(), *broken.symptoms.values(), broken.example]
    rows = [f"| {label} | {left} | {right} |" for (label, left), right in zip(labels.items(), values, strict=True)]
    return "\n".join(["| | without the mistake | with it |", "|---|---|---|", *rows])


def summary(comparisons: dict[str, Comparison]) -> str:
    """The numbers of all runs, in Markdown."""
    references = {MISTAKES[name].reference: comparison.reference for name, comparison in comparisons.items()}
    runs = {f"*{REFERENCES[name].title}*": results for name, results in references.items()}
    for number, (name, comparison) in enumerate(comparisons.items(), 1):
        runs[f"{number}. {MISTAKES[name].title}"] = comparison.broken
    columns = list(next(iter(runs.values())).numbers)
    rows = [f"| {title} | {' | '.join(results.numbers.values())} |" for title, results in runs.items()]
    return "\n".join([f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns), *rows])


def curves_figure(comparison: Comparison) -> Figure:
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    losses, scores = figure.subplots(1, 2)
    for results, label, color in ((comparison.reference, "without", "C0"), (comparison.broken, "with", "C3")):
        steps, values = results.curves["train/loss"]
        losses.plot(steps, running_mean(values), color=color, label=f"training, {label} the mistake")
        points = {"color": color, "marker": "o" if color == "C0" else "s"}
        losses.plot(
            *results.curves["validation/loss"], **points, linestyle=":", label=f"validation, {label} the mistake"
        )
        scores.plot(*results.curves["validation/bleu"], **points, label=f"{label} the mistake")
    losses.set(ylabel="loss (nats per token)", ylim=(0, 8))
    scores.set(ylabel="validation BLEU, as reported", ylim=(-3, 103))
    for axes in (losses, scores):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    return figure


def draw_matrix(axes: Axes, attention: Attention) -> None:
    axes.imshow(attention.weights.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(attention.keys)), attention.keys, rotation=90, parse_math=False, fontsize="small")
    axes.set_yticks(range(len(attention.queries)), attention.queries, parse_math=False, fontsize="small")
    axes.set(xlabel="looked at (keys)", ylabel="looking (queries)")


def attention_figure(comparison: Comparison) -> Figure:
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    kind = NAMES[VIEWS[comparison.name].attention]
    both = ((comparison.reference, "without the mistake"), (comparison.broken, "with the mistake"))
    for axes, (results, title) in zip(figure.subplots(1, 2), both, strict=True):
        assert results.attention is not None
        draw_matrix(axes, results.attention)
        axes.set_title(f"{kind}\n{title}", fontsize="medium")
    figure.colorbar(figure.axes[0].images[0], ax=figure.axes, label="attention weight", shrink=0.8)
    return figure


def draw(comparison: Comparison, folder: Path) -> None:
    """Draws the curves as NAME.png and, if it shows the mistake, attention as NAME_attention.png."""
    figures = {"": curves_figure(comparison)}
    if comparison.name in VIEWS:
        figures["_attention"] = attention_figure(comparison)
    for suffix, figure in figures.items():
        picture = folder / f"{comparison.name}{suffix}.png"
        save(figure, picture)
        Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)  # a third of the size


def with_labels(measured: str, other: str) -> str:
    """A table with the header and the first column of another one, which is in another language."""
    header, line, *rows = other.splitlines()
    labels = [row.split(" | ", 1)[0] for row in rows]
    values = [row.split(" | ", 1)[1] for row in measured.splitlines()[2:]]
    return "\n".join([header, line, *(" | ".join(row) for row in zip(labels, values, strict=True))])


def write_pages(comparisons: dict[str, Comparison], docs: Path) -> None:
    """Puts the tables between the markers of docs/mistakes.md and of docs/mistakes.zh.md, whose labels stay, and the
    pictures into docs/images/mistakes/."""
    blocks = {"all": summary(comparisons)} | {name: table(comparison) for name, comparison in comparisons.items()}
    for page in (docs / "mistakes.md", docs / "mistakes.zh.md"):
        text = page.read_text(encoding="utf-8")
        for name, block in blocks.items():
            before, start, rest = text.partition(f"<!-- measured: {name} -->\n")
            shown, end, after = rest.partition("\n<!-- end -->")
            if not end:
                raise ValueError(f"{page} has no place for {name}: <!-- measured: {name} --> and <!-- end --> on lines")
            made = block if page.name == "mistakes.md" else with_labels(block, shown)
            text = f"{before}{start}{made}{end}{after}"
        atomic_write(page, text.encode())
    pictures = docs / "images" / "mistakes"
    pictures.mkdir(parents=True, exist_ok=True)
    for comparison in comparisons.values():
        draw(comparison, pictures)
