"""Compares finished runs: scores with intervals, significance tests, and the sentences that differ most."""

import logging
import os
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformer.data.text_files import Pair
from transformer.evaluation.metrics import METRICS
from transformer.evaluation.settings import CompareSettings
from transformer.files import write_json
from transformer.printing import with_progress
from transformer.tools.compare.comet import comet_scores
from transformer.tools.compare.comparison_table import show_comparison, show_differences
from transformer.tools.compare.run_results import (
    check_comparable,
    read_results,
    run_names,
    search_notes,
    shared_metrics,
)
from transformer.tools.compare.significance import Difference, TestedScore, compare, largest_differences

# For runs that were tested with different searches, or if some were translated again.
MIXED = (
    "The runs may have been translated with different searches (below), which may be the whole difference: to be sure, "
    "translate all of them again, evaluate.py RUN."
)


@dataclass
class Comparison:
    """All systems by name; the others are compared with the first."""

    settings: CompareSettings
    folders: dict[str, Path]
    pairs: list[Pair]
    systems: dict[str, list[str]]
    signatures: dict[str, str]
    notes: list[str]
    warning: str | None
    tested: dict[str, dict[str, TestedScore]]
    differences: dict[str, list[Difference]]
    comet: dict[str, float]
    seed: str

    def show(self) -> None:
        sizes = f"{self.settings.resamples:,} resamples, {self.settings.trials:,} trials, seed {self.seed}"
        how = f"{self.settings.split}: {sizes}; {len(self.pairs):,} sentences"
        main, *_ = self.tested
        signature = f"{METRICS[main].label} {self.signatures[main]}"
        show_comparison(self.tested, self.comet, self.warning, [*self.notes, how, signature])
        first, *others = self.systems
        for name in others:
            show_differences(first, name, self.differences[name], self.pairs, self.systems)

    def intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        """By metric, each system's score and half of its 95 % interval."""
        return {
            metric: {name: (one.score, one.interval) for name, one in row.items()}
            for metric, row in self.tested.items()
        }

    def write(self, file: Path) -> None:
        results: dict[str, Any] = {
            "split": self.settings.split,
            "sentences": len(self.pairs),
            "runs": {name: str(folder) for name, folder in self.folders.items()},
            "notes": [*([self.warning] if self.warning else []), *self.notes],
            "signatures": self.signatures,
            "resamples": self.settings.resamples,
            "trials": self.settings.trials,
            "seed": self.seed,
            **{metric: {name: asdict(one) for name, one in row.items()} for metric, row in self.tested.items()},
            "comet": {"model": self.settings.comet, **self.comet} if self.comet else None,
            "differences": {name: [asdict(one) for one in rows] for name, rows in self.differences.items()},
        }
        write_json(file, results)


def compare_runs(folders: list[Path], settings: CompareSettings) -> Comparison:
    """Reads the runs in these folders, checks that they can be compared, and tests each run against the first."""
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # the bar already shows the progress
    runs = {
        name: read_results(folder, settings.split, settings.cache)
        for name, folder in zip(run_names(folders), folders, strict=True)
    }
    first, *others = runs.values()
    for other in others:
        check_comparable(first, other)
    sources, references = (list(side) for side in zip(*first.pairs, strict=True))
    systems = {name: run.hypotheses for name, run in runs.items()}
    base, *names = systems
    metrics = shared_metrics(list(runs.values()))
    progress = partial(with_progress, what="resampling")
    comet = comet_scores(settings.comet, systems, sources, references) if settings.comet is not None else {}
    is_mixed, notes = search_notes(runs)
    return Comparison(
        settings=settings,
        folders={name: run.folder for name, run in runs.items()},
        pairs=first.pairs,
        systems=systems,
        signatures=first.signatures,
        notes=notes,
        warning=MIXED if is_mixed else None,
        tested=compare(systems, references, first.direction[1], metrics, settings.resamples, settings.trials, progress),
        differences={
            name: largest_differences(systems[base], systems[name], references, first.direction[1], settings.sentences)
            for name in names
        },
        comet=comet,
        seed=os.environ.get("SACREBLEU_SEED", "12345"),
    )
