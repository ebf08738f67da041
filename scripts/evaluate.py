"""Scores a trained translator: `python scripts/evaluate.py [checkpoint=RUN] [split=test]`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.evaluation.evaluate import EvaluationSettings


def read(config: dict[str, Any]) -> EvaluationSettings:
    from transformer.cli.checkpoints import announce_checkpoint
    from transformer.cli.settings import evaluation_settings
    from transformer.config import from_dict

    values = evaluation_settings(config)
    from transformer.evaluation.evaluate import EvaluationSettings

    settings = from_dict(EvaluationSettings, values, "")
    announce_checkpoint(config, Path(settings.checkpoints[0]))
    return settings


def evaluate_run(settings: EvaluationSettings) -> dict[str, float]:
    from transformer.data.printable import ProgressBar
    from transformer.evaluation import build_metrics
    from transformer.evaluation.alignments import read_gold, show_error_rates
    from transformer.evaluation.choosing import Chooser
    from transformer.evaluation.evaluate import evaluate, read_texts, show_scores, write_evaluation
    from transformer.files import run_of, sha256_of
    from transformer.inference.ensemble import load_ensemble

    started = time.monotonic()
    checkpoints, inference = [*map(Path, settings.checkpoints)], settings.inference
    translator = load_ensemble(checkpoints, inference.device, inference.precision, *settings.languages)
    digest = sha256_of(checkpoints)  # now: a run that is still training replaces them
    translator.configure_torch(settings.machine)
    translator.greedy_scores = False  # nobody sees them
    settings = settings.with_default_length_penalty(translator.length_penalty)
    build_metrics(settings.metrics, translator.target_language)  # before the work: one may lack a package
    texts = read_texts(settings, run_of(checkpoints[0]), translator.languages, translator.directions)
    translator.lines_of = settings.source or texts.name
    gold = read_gold(Path(settings.alignments), texts.pairs()) if settings.alignments else None
    chooser = Chooser.load(translator, settings.choose, inference)
    with ProgressBar(f"translating {texts.name}") as bar:
        hypotheses, scores, _ = evaluate(
            chooser, texts.pairs(), settings.search, settings.metrics, inference.batch_tokens, on_progress=bar.update
        )
    show_scores(texts.name, scores)
    write_evaluation(settings, texts, hypotheses, scores, digest, time.monotonic() - started, translator.is_zero_shot)
    if gold is not None:
        show_error_rates(translator, texts.name, texts.pairs(), gold)
    return dict(scores.values)


if __name__ == "__main__":
    launch(read, evaluate_run, config_name="evaluate")
