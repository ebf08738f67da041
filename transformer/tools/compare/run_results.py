"""Reads and checks the results of a finished run for a comparison (test.json, hypotheses.<split>.txt)."""

import math
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformer.config import UsageError, from_dict, shown
from transformer.data.config import split_name
from transformer.data.directions import Direction, direction_name
from transformer.data.splitting import corpus_of
from transformer.data.text_files import Pair
from transformer.evaluation.metrics import METRICS, Scores, score
from transformer.files import expanded, read_json
from transformer.inference.settings import Defaults, SearchSettings
from transformer.run import Run

# The scores of a text may differ in their last bits between machines.
TOLERANCE = 1e-6


def _folders(path: Path) -> list[Path]:
    """The folder of a run, or those of the trials of a sweep."""
    run = Run(path)
    if run.results.is_file():
        return [path]
    folders = [trial for trial in path.iterdir() if Run(trial).results.is_file()] if path.is_dir() else []
    if not folders:
        reason = f"has no {run.results.name}: no run has ended there" if path.is_dir() else "no such run"
        if run.evaluation.is_file():
            file = min(path.glob(run.hypotheses_file("*").name), default=run.hypotheses_file("test"))
            reason = (
                f"is no run: sacrebleu REFERENCE -i FILE {file} --paired-bs compares the translations of evaluate.py"
            )
        if run.last.parent.is_dir():
            reason = f"has no {run.results.name}, because it is not finished: train.py resume={path} continues it"
        raise ValueError(f"{path}: {reason}")
    # Trial 10 after trial 9.
    return sorted(folders, key=lambda folder: [int(n) if n.isdecimal() else n for n in re.split(r"(\d+)", str(folder))])


def find_runs(paths: Iterable[str]) -> list[Path]:
    """Finds the folders of runs, each once, in this order; the folder of a sweep stands for its trials."""
    folders = list({folder.resolve(): folder for path in paths for folder in _folders(expanded(path))}.values())
    if len(folders) < 2:
        raise UsageError(f"a comparison needs two runs, and only {folders[0] if folders else 'none'} is given")
    return folders


def run_names(folders: list[Path]) -> list[str]:
    """Names runs by the part of their paths that differs."""
    absolute = [os.path.abspath(folder) for folder in folders]  # noqa: PTH100
    return [os.path.relpath(folder, os.path.commonpath(absolute)) for folder in absolute]


@dataclass
class RunResults:
    """The translations of a split, its pairs, the signatures of the scores, and the search that made the translations:
    the run's own, or that of evaluate.py."""

    folder: Path
    direction: Direction
    pairs: list[Pair]
    hypotheses: list[str]
    signatures: dict[str, str]
    search: dict[str, Any]
    is_own: bool


def _close(scores: Scores, others: Scores) -> bool:
    """Whether both agree in the metrics that they share; they must share one."""
    shared = scores.values.keys() & others.values.keys()
    return bool(shared) and all(math.isclose(scores[name], others[name], abs_tol=TOLERANCE) for name in shared)


def _own_search(run: Run) -> dict[str, Any]:
    """The search that a run was tested with; a setting that is newer than the run has its default."""
    search = from_dict(SearchSettings, run.setting("search"), f"{run.config}: search")
    if run.setting("init_from") is None:  # otherwise the defaults may be those of the model to begin with
        search = search.with_defaults(Defaults())
    return asdict(search)


def _with_todays_names(search: dict[str, Any]) -> dict[str, Any]:
    """The search of an evaluation; older evaluations have the settings of a choice in a separate section."""
    section = search.get("choose")
    if not isinstance(section, dict):
        return search
    renamed = {"method": "choose", "metric": "similarity", "weight": "reverse_weight"}
    return search | {renamed.get(str(key), str(key)): value for key, value in section.items()}


def _later_evaluation(run: Run, split: str) -> tuple[Scores, dict[str, Any] | None] | None:
    """The scores of evaluate.py and its search, if this is known; None if it has not translated this split."""
    results = read_json(run.evaluation) if run.evaluation.exists() else {}
    if split not in results:
        return None
    scores, searches = Scores.from_dict(results[split], f"{run.evaluation}: {split}"), results.get("searches")
    search = searches.get(split) if isinstance(searches, dict) else None
    return scores, _with_todays_names(asdict(SearchSettings()) | search) if isinstance(search, dict) else None


def read_results(folder: Path, split: str, cache: str) -> RunResults:
    """Reads the results of the run in `folder` for a split of its corpus.

    Raises ValueError or OSError if its files do not fit each other.
    """
    run = Run(folder)
    results = read_json(run.results)
    tested = [name for name, scores in results.items() if isinstance(scores, dict) and "signatures" in scores]
    if split not in tested:
        settings = corpus_of(run)  # test.de-en also means the test of a run with de-en as its first or only direction
        split = next((name for name in tested if split_name(name, settings.languages) == split), split)
    if split not in tested:
        raise UsageError(f"{folder} was not tested on --split {split}; it has {', '.join(tested) or 'no scores'}")
    scores = Scores.from_dict(results[split], f"{run.results}: {split}")
    corpus, digests = corpus_of(run, cache), results.get("corpus")
    if not isinstance(digests, dict) or corpus.digest(split) != digests.get(split):
        files = corpus_of(run).whole or " and ".join(map(str, corpus.files(split)))
        raise ValueError(f"{files} has changed since {folder} was tested: its scores are for other references")
    pairs = list(corpus.read(split))
    file = run.hypotheses_file(split)
    if not file.exists():
        raise FileNotFoundError(f"there is no {file}: evaluate.py {folder} --split {split} translates it again")
    hypotheses = run.hypotheses(split)
    if len(hypotheses) != len(pairs):
        raise ValueError(f"{file} has {len(hypotheses):,} lines, its references have {len(pairs):,}")
    direction = corpus.find_split(split)[0].languages
    later_scores, later_search = _later_evaluation(run, split) or (None, None)
    metrics = dict.fromkeys([*scores.values, *(later_scores.values if later_scores else ())])
    rescored = score(hypotheses, [reference for _, reference in pairs], direction[1], metrics)
    own = _own_search(run) if _close(rescored, scores) else None
    search = (later_search if later_scores and _close(rescored, later_scores) else None) or own
    if search is None:  # the translations fit no scores
        name, value = next(iter(rescored.values.items()))
        raise ValueError(
            f"{file} was altered: it gives {METRICS[name].label} {value:.2f}, not the score in {run.results.name}; "
            "evaluate.py writes new translations"
        )
    return RunResults(folder, direction, pairs, hypotheses, scores.signatures, search, is_own=search == own)


def search_notes(runs: dict[str, RunResults]) -> tuple[bool, list[str]]:
    """Whether runs may have been translated with different searches, and lines about searches: the settings that
    differ; or, if evaluate.py has replaced a run's own translations, all settings of its search."""
    searches = [run.search for run in runs.values()]
    keys = dict.fromkeys(key for search in searches for key in search)
    differing = [key for key in keys if any(search.get(key) != searches[0].get(key) for search in searches)]
    notes = []
    for name, run in runs.items():
        search = ", ".join(f"{key}={shown(run.search.get(key))}" for key in differing or keys)
        if differing or not run.is_own:
            notes.append(
                f"{name}: {'as the run was tested' if run.is_own else 'translated again by evaluate.py'} ({search})"
            )
    return bool(differing), notes


def check_comparable(first: RunResults, other: RunResults) -> None:
    """Raises ValueError for different references, and for scores with different signatures."""
    remedy = ": compare runs that were tested on the same sentences"
    if first.direction != other.direction:
        one, two = map(direction_name, (first.direction, other.direction))
        remedy = (
            f"; one translates {one}, the other {two}: choose a direction that both were tested on, as "
            "--split test.SOURCE-TARGET"
        )
    for line, ((_, one), (_, two)) in enumerate(zip(first.pairs, other.pairs, strict=False), 1):
        if one != two:
            raise ValueError(
                f"{first.folder} and {other.folder} have different references (line {line}: {one!r}, {two!r}){remedy}"
            )
    if len(first.pairs) != len(other.pairs):
        raise ValueError(
            f"{first.folder} and {other.folder} have different numbers of references: {len(first.pairs):,} and "
            f"{len(other.pairs):,}{remedy}"
        )
    for metric, signature in first.signatures.items():
        if other.signatures.get(metric, signature) != signature:
            raise ValueError(
                f"{first.folder} and {other.folder} have scores of different kinds, {metric} {signature} and "
                f"{other.signatures[metric]}: evaluate them with the same settings"
            )


def shared_metrics(runs: list[RunResults]) -> list[str]:
    """The metrics by which all runs were scored, in the order of the first run. Raises ValueError if there is none."""
    shared = [metric for metric in runs[0].signatures if all(metric in run.signatures for run in runs)]
    if not shared:
        each = "; ".join(f"{run.folder}: {', '.join(run.signatures)}" for run in runs)
        raise ValueError(f"no metric is common to all runs ({each}): evaluate them with the same --metrics")
    return shared
