"""Scores a trained translator: `python scripts/evaluate.py [checkpoint=RUN] [split=test]`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.evaluation.evaluate import EvaluationSettings


def read(config: dict[str, Any]) -> EvaluationSettings:
    from transformer.cli.runs import check_output, find_checkpoints, find_reverse, run_of, say_which, trial_folder
    from transformer.cli.settings import corpus_settings
    from transformer.config import UsageError, from_dict

    checkpoints = find_checkpoints(config["checkpoint"], Path(config["runs"]), exports=False)
    if len(checkpoints) > 1 and not config["output"]:
        raise UsageError("the results of an ensemble are of no run alone: give output=FOLDER")
    checkpoint = checkpoints[0]
    # The trials of a sweep must not write over each other's results, or over the run's own.
    output = config["output"] or str(trial_folder() or run_of(checkpoint))
    check_output(output, folder=True)
    from transformer.evaluation.evaluate import EvaluationSettings
    from transformer.evaluation.run_files import check_entries

    if not config["output"]:
        check_entries(run_of(checkpoint))
    settings = {
        key: config[key] for key in ("split", "source", "reference", "alignments", "target_language", "metrics")
    }
    settings |= {key: config.get(key) for key in ("search", "machine", "cache")}
    settings["choose"] = find_reverse(config)
    settings["data"] = corpus_settings(config["data"]) if config.get("data") else None
    settings["serving"] = {key: config[key] for key in ("device", "precision", "batch_tokens")}
    say_which(config, checkpoint)
    return from_dict(EvaluationSettings, settings | {"checkpoints": [*map(str, checkpoints)], "output": output}, "")


def evaluate(settings: EvaluationSettings) -> dict[str, float]:
    from transformer.cli.runs import run_of
    from transformer.data.printable import print_safely
    from transformer.device import configure_torch
    from transformer.evaluation import METRICS, score
    from transformer.evaluation.alignments import error_rates, read_gold
    from transformer.evaluation.choosing import Chooser
    from transformer.evaluation.evaluate import read_texts, translate_texts, write_evaluation
    from transformer.inference.alignment_head import default_head
    from transformer.inference.ensemble import load_ensemble

    started = time.monotonic()
    checkpoints, serving = [*map(Path, settings.checkpoints)], settings.serving
    target_language = settings.target_language or (settings.data.target_language if settings.data else None)
    translator = load_ensemble(checkpoints, serving.device, serving.precision, target_language)
    configure_torch(settings.machine, translator.device.type, translator.model.output.weight.dtype)
    texts = read_texts(settings, run_of(checkpoints[0]), translator.languages)
    gold = read_gold(Path(settings.alignments), texts.pairs()) if settings.alignments else None
    chooser = Chooser.load(translator, settings.choose, serving)
    hypotheses = translate_texts(chooser, texts, settings.search, serving.batch_tokens)
    scores = score(hypotheses, texts.references, translator.target_language, settings.metrics)
    write_evaluation(settings, texts, hypotheses, scores, time.monotonic() - started)
    for name, value in scores.values.items():
        print_safely(f"{texts.name} {METRICS[name].label} {value:.2f}   {scores.signatures[name]}")
    if gold is not None:
        for head, rate in error_rates(translator, texts.pairs(), gold).items():
            chosen = "   (chosen)" if head == (translator.alignment or default_head(translator.model.config)) else ""
            print_safely(f"{texts.name} alignment error rate {rate:.1f}   {head}{chosen}")
    return dict(scores.values)


if __name__ == "__main__":
    launch(read, evaluate, config_name="evaluate")
