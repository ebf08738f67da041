"""A comparison of systems for reading: a table, a sentence for each pair, and the sentences that differ most."""

import operator

from rich import box
from rich.table import Table
from rich.text import Text

from transformer.data.text_files import Pair
from transformer.evaluation.metrics import METRICS
from transformer.printing import console
from transformer.tools.compare.significance import ALPHA, Difference, TestedScore


def _score(tested: TestedScore) -> str:
    differs = tested.p is not None and tested.p < ALPHA
    return f"{tested.score:.1f} ± {tested.interval:.1f}{'*' if differs else ' '}"


def _p(p: float | None) -> str:
    if p is None:
        return ""
    if p < 0.001:
        return "< 0.001"
    # 0.0499 is below the level and must look so; 0.04999 too.
    if p < ALPHA <= round(p, 4):
        return f"< {ALPHA}"
    return f"{p:.4f}" if round(p, 3) == ALPHA else f"{p:.3f}"


def verdict(first: str, other: str, metric: str, tested: dict[str, TestedScore]) -> str:
    """A sentence that says whether the other system is better or worse than the first."""
    gain, p, label = tested[other].score - tested[first].score, tested[other].p, METRICS[metric].label
    assert p is not None
    if gain == 0:
        return f"{other} and {first} have the same {label}"
    certainty = f"p {shown}" if (shown := _p(p)).startswith("<") else f"p = {shown}"
    if p >= ALPHA:
        return f"{other} and {first} do not differ significantly: {gain:+.1f} {label}, {certainty}"
    better = (gain > 0) == METRICS[metric].higher_is_better
    return f"{other} is {'better' if better else 'worse'} than {first}: {gain:+.1f} {label}, {certainty}"


def show_comparison(
    tested: dict[str, dict[str, TestedScore]], comet: dict[str, float], warning: str | None, notes: list[str]
) -> None:
    """Prints all scores (with * if they differ significantly from the first system's) and a verdict by the first
    metric."""
    out = console()
    table = Table("run", box=box.SIMPLE)
    main, *_ = tested
    labels = [METRICS[metric].label for metric in tested]
    for heading in (*labels, *(["COMET"] if comet else []), "p (bootstrap)", "p (randomization)"):
        table.add_column(heading, justify="right")
    first, *others = tested[main]
    for name in (first, *others):
        scores = [_score(systems[name]) for systems in tested.values()]
        neural = [f"{comet[name]:.4f}"] if comet else []
        chance = tested[main][name]
        table.add_row(name, *scores, *neural, _p(chance.p_bootstrap), _p(chance.p_randomization))
    out.print(table)
    if warning:
        out.print(Text(warning, style="bold"))
    for name in others:
        out.print(verdict(first, name, main, tested[main]))
    out.print()
    for note in notes:
        out.print(Text(note, style="dim"))
    legend = [
        f"±: half of the 95 % interval; *: differs from {first} (both p are below {ALPHA:g}); the p shown are for "
        f"{labels[0]}",
        "this compares two models: to compare the settings of their training, train each with several seeds",
    ]
    if len(others) > 1:
        legend.append(f"{len(others)} comparisons: of {1 / ALPHA:.0f} equal systems, one looks different by chance")
    for line in legend:
        out.print(Text(line, style="dim"))


def show_differences(
    first: str, other: str, differences: list[Difference], pairs: list[Pair], systems: dict[str, list[str]]
) -> None:
    """Prints the sentences whose BLEU differs most between two systems."""
    out = console()
    if differences:
        count = sum(map(operator.ne, systems[first], systems[other]))
        how = f"BLEU of the sentence; {count:,} of {len(pairs):,} translations differ"
        out.print(Text(f"\nWhere {first} and {other} differ most ({how})", style="bold"))
    width = max(len("reference"), len(first), len(other))
    for difference in differences:
        source, reference = pairs[difference.sentence]
        lines = {
            "source": source,
            "reference": reference,
            first: f"{systems[first][difference.sentence]}  ({difference.first:.0f})",
            other: f"{systems[other][difference.sentence]}  ({difference.other:.0f})",
        }
        out.print(f"\nline {difference.sentence + 1}", style="dim")
        for name, text in lines.items():
            out.print(Text(f"  {name:<{width}}  {text}"))
