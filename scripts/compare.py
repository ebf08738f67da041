"""Compares runs on the same sentences: `python scripts/compare.py runs=[A,B,…] [split=test]`."""

import glob
import json
import logging
import math
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from evaluate import saved_corpus
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from transformer.cli.launch import UsageError, check_output, launch
from transformer.config import from_dict
from transformer.data.corpus import DataSettings, Pair
from transformer.evaluation import Scores, score
from transformer.evaluation.comet import comet_scores
from transformer.evaluation.comparison import show_comparison, show_differences
from transformer.evaluation.significance import Test, compare, largest_differences
from transformer.files import atomic_write
from transformer.visualization.comparison import draw_comparison

RESULTS = "test.json"
# Scores of one text may differ in their last bits from one machine to another.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class CompareSettings:
    split: str
    sentences: Annotated[int, ">= 0"]
    resamples: Annotated[int, ">= 40"]  # of fewer no fortieth can be left out at either end
    trials: Annotated[int, ">= 1"]
    comet: str | None
    output: str | None


@dataclass
class Run:
    """What a run has translated, how, and what is to be known of it."""

    folder: Path
    language: str
    pairs: list[Pair]
    hypotheses: list[str]
    signatures: dict[str, str]
    note: str | None


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


def read_run(folder: Path, split: str) -> Run:
    """What a run has left of a split; ValueError or OSError where its files do not fit each other."""
    results = _json(folder / RESULTS)
    if not isinstance(results.get(split), dict) or "bleu" not in results[split]:
        tested = [name for name, found in results.items() if isinstance(found, dict) and "bleu" in found]
        raise ValueError(f"{folder} was not tested on split={split}; it has {', '.join(tested)}")
    scores = from_dict(Scores, results[split], f"{folder / RESULTS}: {split}")
    corpus = from_dict(DataSettings, saved_corpus(folder), "data")
    if corpus.digest(split) != results.get("corpus", {}).get(split):
        files = " and ".join(map(str, corpus.files(split)))
        raise ValueError(f"{files} changed since {folder} was tested: its scores are of other references")
    pairs = list(corpus.pairs(split))
    file = folder / f"hypotheses.{split}.txt"
    hypotheses = file.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    if len(hypotheses) != len(pairs):
        raise ValueError(f"{file} has {len(hypotheses):,} lines, its references have {len(pairs):,}")
    found = score(hypotheses, [reference for _, reference in pairs], corpus.target_language)
    note = None
    if not _same(found, scores):
        note = _evaluated(folder, split, found)
    return Run(folder, corpus.target_language, pairs, hypotheses, scores.signatures, note)


def _evaluated(folder: Path, split: str, found: Scores) -> str:
    """What to say of translations that evaluate.py has put in the place of the run's own.

    Raises ValueError where it has not: then nobody knows who made them.
    """
    evaluation = folder / "evaluation.json"
    results = _json(evaluation) if evaluation.exists() else {}
    if split not in results or not _same(found, from_dict(Scores, results[split], f"{evaluation}: {split}")):
        raise ValueError(
            f"{folder / f'hypotheses.{split}.txt'} was altered: it gives BLEU {found.bleu:.2f}, which {RESULTS} does "
            "not know; evaluate.py writes it anew"
        )
    how = ", ".join(f"{key}={value}" for key, value in results.get("searches", {}).get(split, {}).items())
    return f"translated anew by evaluate.py ({how})"


def _same(one: Scores, other: Scores) -> bool:
    return all(
        math.isclose(getattr(one, name), getattr(other, name), abs_tol=TOLERANCE) for name in ("bleu", "chrf", "ter")
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} cannot be read: it holds no results")
    return found


def check_comparable(first: Run, other: Run) -> None:
    """Raises ValueError for other references, and for scores that were computed otherwise."""
    for line, ((_, one), (_, two)) in enumerate(zip(first.pairs, other.pairs, strict=False), 1):
        if one != two:
            raise ValueError(f"{first.folder} and {other.folder} have other references (line {line}: {one!r}, {two!r})")
    if len(first.pairs) != len(other.pairs):
        raise ValueError(
            f"{first.folder} and {other.folder} have other references ({len(first.pairs):,} and {len(other.pairs):,})"
        )
    for metric, signature in first.signatures.items():
        if other.signatures.get(metric) != signature:
            raise ValueError(
                f"{first.folder} and {other.folder} were scored otherwise: {metric} {signature}, "
                f"{other.signatures.get(metric)}"
            )


def compare_runs(config: DictConfig) -> None:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # the bar says how far it is
    known = ("runs", "debug")
    settings = from_dict(CompareSettings, {key: value for key, value in plain.items() if key not in known}, "")
    if settings.output:
        check_output(settings.output, folder=True)
    folders = find_runs(plain["runs"])
    runs = {name: read_run(folder, settings.split) for name, folder in zip(_names(folders), folders, strict=True)}
    first, *others = runs
    for name in others:
        check_comparable(runs[first], runs[name])
    sources, references = (list(side) for side in zip(*runs[first].pairs, strict=True))
    systems = {name: run.hypotheses for name, run in runs.items()}
    language = runs[first].language
    comet = comet_scores(settings.comet, systems, sources, references) if settings.comet else {}

    def progress(tests: Iterable[Test]) -> Iterable[Test]:
        return track(list(tests), "resampling", console=Console(stderr=True), transient=True)

    tested = compare(systems, references, language, settings.resamples, settings.trials, progress)
    differences = {
        name: largest_differences(systems[first], systems[name], references, language, settings.sentences)
        for name in others
    }
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    how = f"{settings.resamples:,} resamples, {settings.trials:,} trials, seed {seed}; {len(references):,} sentences"
    notes = [f"{name}: {run.note}" for name, run in runs.items() if run.note]
    show_comparison(tested, comet, [*notes, f"{settings.split}: {how}", f"BLEU {runs[first].signatures['bleu']}"])
    for name in others:
        show_differences(first, name, differences[name], runs[first].pairs, systems)
    if settings.output:
        results = {
            "split": settings.split,
            "sentences": len(references),
            "runs": {name: str(run.folder) for name, run in runs.items()},
            "notes": notes,
            "signatures": runs[first].signatures,
            "resamples": settings.resamples,
            "trials": settings.trials,
            "seed": seed,
            **{metric: {name: asdict(found) for name, found in row.items()} for metric, row in tested.items()},
            "comet": {"model": settings.comet, **comet} if comet else None,
            "differences": {name: [asdict(found) for found in rows] for name, rows in differences.items()},
        }
        file = Path(settings.output) / "comparison.json"
        atomic_write(file, json.dumps(results, indent=2, ensure_ascii=False).encode())
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
