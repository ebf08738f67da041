"""A comparison of systems as one reads it: a table, a sentence for each pair, and where they differ most."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from transformer.data.corpus import Pair
from transformer.evaluation.significance import LEVEL, Difference, Tested


def show_comparison(tested: dict[str, dict[str, Tested]], comet: dict[str, float], notes: list[str]) -> None:
    """Prints scores (chrF and TER with * where they too differ from the first system's) and a verdict by BLEU."""
    console = _console()
    table = Table("run", box=box.SIMPLE)
    for heading in ("BLEU", "chrF", "TER", *(["COMET"] if comet else []), "p (bootstrap)", "p (randomization)"):
        table.add_column(heading, justify="right")
    first, *others = tested["bleu"]
    for name in (first, *others):
        bleu = tested["bleu"][name]
        scores = [_score(tested[metric][name]) for metric in ("bleu", "chrf", "ter")]
        neural = [f"{comet[name]:.4f}"] if comet else []
        table.add_row(name, *scores, *neural, _p(bleu.p_bootstrap), _p(bleu.p_randomization))
    console.print(table)
    for name in others:
        console.print(verdict(first, name, tested["bleu"]))
    console.print()
    for note in notes:
        console.print(Text(note, style="dim"))
    legend = [
        f"±: half of the 95 % interval; *: differs from {first}, both p being below {LEVEL:g}; those shown are of BLEU",
        "it is these models that differ: whether their settings do, only several seeds can tell",
    ]
    if len(others) > 1:
        legend.append(f"{len(others)} comparisons: one in {1 / LEVEL:.0f} of equals comes out as different by chance")
    for line in legend:
        console.print(Text(line, style="dim"))


def verdict(first: str, other: str, bleu: dict[str, Tested]) -> str:
    """Says in a sentence whether the other system is better or worse than the first."""
    gain, p = bleu[other].score - bleu[first].score, bleu[other].p
    assert p is not None
    if gain == 0:
        return f"{other} and {first} have the same BLEU"
    sure = f"p {_p(p)}" if p < 0.001 else f"p = {_p(p)}"
    if p >= LEVEL:
        return f"{other} and {first}: no difference can be told: {gain:+.1f} BLEU, {sure}"
    return f"{other} is {'better' if gain > 0 else 'worse'} than {first}: {gain:+.1f} BLEU, {sure}"


def show_differences(
    first: str, other: str, differences: list[Difference], pairs: list[Pair], systems: dict[str, list[str]]
) -> None:
    """Prints the sentences whose BLEU differs most between two systems."""
    console = _console()
    if differences:
        console.print(Text(f"\nWhere {first} and {other} differ most (BLEU of the sentence)", style="bold"))
    width = max(len("reference"), len(first), len(other))
    for found in differences:
        source, reference = pairs[found.sentence]
        lines = {
            "source": source,
            "reference": reference,
            first: f"{systems[first][found.sentence]}  ({found.first:.0f})",
            other: f"{systems[other][found.sentence]}  ({found.other:.0f})",
        }
        console.print(f"\nline {found.sentence + 1}", style="dim")
        for name, text in lines.items():
            console.print(Text(f"  {name:<{width}}  {text}"))


def _console() -> Console:
    width = None if sys.stdout.isatty() else 10_000  # nothing is cut in a pipe
    return Console(width=width, markup=False, emoji=False, highlight=False)


def _score(tested: Tested) -> str:
    sure = tested.p is not None and tested.p < LEVEL
    return f"{tested.score:.1f} ± {tested.interval:.1f}{'*' if sure else ' '}"


def _p(p: float | None) -> str:
    if p is None:
        return ""
    # 0.0499 is below the level, and should look so.
    return "< 0.001" if p < 0.001 else f"{p:.4f}" if round(p, 3) == LEVEL else f"{p:.3f}"
