"""`translator evaluate`: scores of a trained translator."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from transformer.cli.app import ChoiceFlags, Flags, MachineFlags, SearchFlags
from transformer.cli.lines import refuse_table
from transformer.cli.models import announce_checkpoint, find_checkpoints, with_reverse
from transformer.cli.places import check_output_folder
from transformer.config import UsageError
from transformer.evaluation.settings import EvaluationInference, EvaluationSettings
from transformer.files import sha256_of
from transformer.inference.settings import ChoiceSettings, SearchSettings
from transformer.machine import MachineSettings
from transformer.printing import ProgressBar, shell_path
from transformer.run import Run

ExactInferenceFlags = Annotated[EvaluationInference, Parameter(name="*", group="Device")]


def check_files(settings: EvaluationSettings) -> None:
    """Raises UsageError or FileNotFoundError if a file of sentences or alignments is missing or a table."""
    for key in ("input", "reference", "alignments"):
        path = getattr(settings, key)
        if path is not None and (not Path(path).exists() or Path(path).is_dir()):
            raise FileNotFoundError(f"--{key} {path}: no such file")
        if path is not None and key != "alignments":
            refuse_table(f"--{key}", path)


def folder_of_results(output: str | None, checkpoints: Sequence[Path]) -> Path:
    """The folder in --output, by default the run's own. Raises UsageError for one that is not possible."""
    run = Run.open(checkpoints[0]).folder
    if output is None and len(checkpoints) > 1:
        raise UsageError("an ensemble belongs to no single run: give --output FOLDER for its results")
    if output is None and checkpoints[0] == run:
        raise UsageError(f"{shell_path(run)} is a Hugging Face folder, not a run: give --output FOLDER for the results")
    folder = Path(output or run)
    check_output_folder(str(folder))
    if Run(folder).models and (len(checkpoints) > 1 or folder.resolve() != run.resolve()):
        raise UsageError(f"--output {output} is the folder of another run: give another folder")
    Run(folder).check_entries()
    return folder


def evaluate(
    checkpoint: list[str] | None = None,
    *,
    settings: Flags[EvaluationSettings] = EvaluationSettings(),
    search: SearchFlags = SearchSettings(),
    choice: ChoiceFlags = ChoiceSettings(),
    inference: ExactInferenceFlags = EvaluationInference(),
    machine: MachineFlags = MachineSettings(),
) -> None:
    """Scores a trained translator on a test set or on your own files.

    Parameters
    ----------
    checkpoint
        a run's folder, .safetensors or .ckpt, or a Hugging Face folder; several are an ensemble of models with one
        vocabulary; by default the newest finished run in runs/
    """
    started = time.monotonic()
    check_files(settings)
    choice = with_reverse(choice)
    choice.check(search)
    checkpoints = find_checkpoints(checkpoint or [], exports=False)
    output = folder_of_results(settings.output, checkpoints)
    announce_checkpoint(checkpoint[0] if checkpoint else None, checkpoints[0])

    from transformer.evaluation.alignment_error import read_gold, show_error_rates
    from transformer.evaluation.evaluate import Origin, read_texts, show_scores, write_evaluation
    from transformer.evaluation.evaluate import evaluate as evaluation_of
    from transformer.evaluation.metrics import build_metrics, scored_language
    from transformer.inference.choosing import Chooser
    from transformer.inference.ensemble import load_ensemble

    languages = settings.source, settings.target
    translator = load_ensemble(checkpoints, inference.device, inference.precision, *languages)
    digest = sha256_of(checkpoints)  # now, because a run that is still training may replace them
    translator.configure_torch(machine)
    translator.greedy_scores = translator.warns_of_lines = False  # not shown here
    search = search.with_defaults(translator.defaults)
    texts = read_texts(settings, Run.open(checkpoints[0]), translator.languages, translator.directions)
    # Built before the work, because a package may be missing.
    build_metrics(settings.metrics, scored_language(translator.target_language, texts.references))
    translator.lines_of = settings.input or texts.name
    gold = read_gold(Path(settings.alignments), texts.pairs()) if settings.alignments else None
    chooser = Chooser.load(translator, choice, inference)
    with ProgressBar(f"translating {texts.name}") as bar:
        found = evaluation_of(
            chooser, texts.pairs(), search, settings.metrics, inference.batch_tokens, True, on_progress=bar.update
        )
    show_scores(texts.name, found)
    origin = Origin(checkpoints, digest, search, choice, translator.is_zero_shot)
    write_evaluation(Run(output), texts, found, origin, time.monotonic() - started)
    if gold is not None:
        show_error_rates(translator, texts.name, texts.pairs(), gold)
