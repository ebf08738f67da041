"""Compares runs on the same sentences: `python scripts/compare.py runs=[A,B,…] [split=test]`."""

import glob
import json
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

from evaluate import saved_corpus
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from transformer.cli.launch import UsageError, check_output, launch
from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.evaluation import METRICS
from transformer.evaluation.comet import comet_scores
from transformer.evaluation.comparison import show_comparison, show_differences
from transformer.evaluation.run_results import RESULTS, check_comparable, read_results, shared_metrics
from transformer.evaluation.significance import Test, compare, largest_differences
from transformer.files import atomic_write
from transformer.visualization.comparison import draw_comparison


@dataclass(frozen=True)
class CompareSettings:
    split: str
    sentences: Annotated[int, ">= 0"]
    resamples: Annotated[int, ">= 40"]  # of fewer no fortieth can be left out at either end
    trials: Annotated[int, ">= 1"]
    comet: str | None
    output: str | None


def find_runs(text: str | None) -> list[Path]:
    """The folders that `runs=[A,B,…]` means, in this order; a part that holds a comma stands in quotes."""
    if text is None:
        raise UsageError("runs is not set: name two or more, as runs=[A,B]")
    if Path(text).is_dir():
        parts = [text]
    else:
        inside = text.strip().removeprefix("[").removesuffix("]")
        parts = ["".join(part) for part in re.findall(r"""\s*(?:"([^"]*)"|'([^']*)'|([^,]+?))\s*(?:,|$)""", inside)]
    folders = list({folder.resolve(): folder for part in parts for folder in _meant(part)}.values())
    if len(folders) < 2:
        raise UsageError(f"runs={text} means {len(folders) or 'no'} run: name two or more, as runs=[A,B]")
    return folders


def _meant(part: str) -> list[Path]:
    """A run's folder, the trials of a sweep's, or what a pattern matches."""
    place = Path(part).expanduser()
    if (place / RESULTS).is_file():
        return [place]
    inside = place.iterdir() if place.is_dir() else map(Path, glob.glob(str(place)))  # noqa: PTH207
    found = [folder for folder in inside if (folder / RESULTS).is_file()]
    if not found:
        what = f"holds no {RESULTS}: no run has ended there" if place.is_dir() else "no such run"
        raise UsageError(f"runs: {part}: {what}")
    # Trial 10 after trial 9.
    return sorted(found, key=lambda folder: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", str(folder))])


def compare_runs(config: DictConfig) -> None:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # the bar says how far it is
    known = ("runs", "debug")
    settings = from_dict(CompareSettings, {key: value for key, value in plain.items() if key not in known}, "")
    if settings.output:
        check_output(settings.output, folder=True)
    folders = find_runs(plain["runs"])
    corpora = [from_dict(DataSettings, saved_corpus(folder), "data") for folder in folders]
    results = [read_results(*run) for run in zip(folders, repeat(settings.split), corpora)]
    runs = dict(zip(_names(folders), results, strict=True))
    first, *others = runs
    for name in others:
        check_comparable(runs[first], runs[name])
    sources, references = (list(side) for side in zip(*runs[first].pairs, strict=True))
    systems = {name: run.hypotheses for name, run in runs.items()}
    language = runs[first].language
    comet = comet_scores(settings.comet, systems, sources, references) if settings.comet else {}

    def progress(tests: Iterable[Test]) -> Iterable[Test]:
        return track(list(tests), "resampling", console=Console(stderr=True), transient=True)

    metrics = shared_metrics(list(runs.values()))
    tested = compare(systems, references, language, metrics, settings.resamples, settings.trials, progress)
    differences = {
        name: largest_differences(systems[first], systems[name], references, language, settings.sentences)
        for name in others
    }
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    how = f"{settings.resamples:,} resamples, {settings.trials:,} trials, seed {seed}; {len(references):,} sentences"
    notes = [f"{name}: {run.note}" for name, run in runs.items() if run.note]
    signature = f"{METRICS[metrics[0]].label} {runs[first].signatures[metrics[0]]}"
    show_comparison(tested, comet, [*notes, f"{settings.split}: {how}", signature])
    for name in others:
        show_differences(first, name, differences[name], runs[first].pairs, systems)
    if settings.output:
        content = {
            "split": settings.split,
            "sentences": len(references),
            "runs": {name: str(run.folder) for name, run in runs.items()},
            "notes": notes,
            "signatures": runs[first].signatures,
            "resamples": settings.resamples,
            "trials": settings.trials,
            "seed": seed,
            **{metric: {name: asdict(one) for name, one in row.items()} for metric, row in tested.items()},
            "comet": {"model": settings.comet, **comet} if comet else None,
            "differences": {name: [asdict(row) for row in rows] for name, rows in differences.items()},
        }
        file = Path(settings.output) / "comparison.json"
        atomic_write(file, json.dumps(content, indent=2, ensure_ascii=False).encode())
        intervals = {
            metric: {name: (one.score, one.interval) for name, one in row.items()} for metric, row in tested.items()
        }
        draw_comparison(intervals, file.with_suffix(".png"))


def _names(folders: list[Path]) -> list[str]:
    """What tells the folders apart."""
    absolute = [os.path.abspath(folder) for folder in folders]  # noqa: PTH100
    return [os.path.relpath(folder, os.path.commonpath(absolute)) for folder in absolute]


if __name__ == "__main__":
    launch(compare_runs, config_name="compare")
