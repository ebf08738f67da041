"""The results of a finished run: the files in its folder (scores, what they depend on, translations) and its output."""

import importlib.metadata
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from transformer.evaluation.evaluate import Evaluation
from transformer.evaluation.metrics import METRICS, Scores
from transformer.files import write_json
from transformer.inference.settings import SearchSettings
from transformer.printing import print_safely, resume_command, script_command, shell_path, shell_word
from transformer.processes import rank
from transformer.run import Run


@dataclass
class Result:
    """The results of a run: the best validation score (None: nothing was validated) and its name, the scores of each
    split, the cost, three sample translations of the test set, and notes. Without a test (test=false) there are only
    the first two and the cost."""

    validation: float | None
    choose_by: str
    scores: dict[str, Scores]
    cost: dict[str, float]
    samples: list[tuple[str, str, str]]
    notes: list[str]

    def numbers(self) -> dict[str, float]:
        """Scores as `split/metric`, or the one of validation, and the cost, for the table of a sweep."""
        if not self.scores:
            name = f"validation/{self.choose_by}"
            return ({} if self.validation is None else {name: abs(self.validation)}) | self.cost
        scores = {f"{split}/{name}": v for split, scores in self.scores.items() for name, v in scores.values.items()}
        return scores | self.cost


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that affect the results."""
    names = ("torch", "lightning", "torchmetrics", "sacrebleu", "sentencepiece")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}


def revision() -> str | None:
    """The commit of the checkout that contains this file, with + if files were changed; None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    # Bytes, as git may name files in another encoding than the system's.
    return commit.stdout.strip().decode("ascii") + ("+" if changed.stdout.strip() else "")


def write_results(
    run: Run,
    evaluations: dict[str, Evaluation],
    corpus: dict[str, str],
    seconds: float,
    cost: dict[str, float],
) -> None:
    """Writes `hypotheses.<split>.txt` and `test.json`; `corpus` are the digests of the files a split was read from."""
    for split, one in evaluations.items():
        run.write_hypotheses(split, one.hypotheses)
    results = {split: one.scores.to_dict() for split, one in evaluations.items()} | {
        "versions": versions(),
        "corpus": corpus,
        "revision": revision(),
        "seconds": round(seconds, 1),
        "cost": cost,
    }
    write_json(run.results, results)


def show_result(result: Result, folder: Path, search: SearchSettings) -> None:
    """Prints the scores, three translations, and the next commands for the run in `folder` with the same search. Only
    the first process prints.

    The length penalty and ratio are saved in the model by now and need not be typed.
    """
    if rank() != 0:
        return
    usual = asdict(SearchSettings(length_penalty=search.length_penalty, length_ratio=search.length_ratio))
    chosen = [
        f"--{key.replace('_', '-')} {shell_word(str(value))}"
        for key, value in asdict(search).items()
        if value != usual[key]
    ]
    run = shell_path(folder)
    arguments = " ".join([run, *chosen])
    if not result.scores:
        label = METRICS[result.choose_by].label if result.choose_by in METRICS else result.choose_by
        found = "nothing was validated" if result.validation is None else f"{label} {abs(result.validation):.1f}"
        print_safely(f"validation: {found}", "", "Next:", f"  {resume_command(folder)} test=true")
        return
    for split, scores in result.scores.items():
        print_safely(f"{split}: {'   '.join(f'{METRICS[name].label} {v:.1f}' for name, v in scores.values.items())}")
    name, signature = next(iter(result.scores["test"].signatures.items()))
    print_safely(f"{METRICS[name].label}'s signature: {signature}")
    print_safely(*result.notes)
    for source, reference, translation in result.samples:
        print_safely("", source, f"→ {translation}", f"= {reference}")
    print_safely("", "Next:", f"  {script_command('evaluate')} {arguments}")
    text = result.samples[0][0]
    typed = f"{'-- ' if text.startswith('-') else ''}{shell_word(text)}"  # else it would be a flag
    print_safely(f"  {script_command('translate')} --checkpoint {arguments} {typed}")
