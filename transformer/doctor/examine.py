"""The whole examination: check a corpus, write a cleaned copy, encode it as training would, time training, report."""

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.progress import track

from transformer.config import from_dict
from transformer.data.corpus import DataSettings
from transformer.data.datamodule import LANGUAGE_SAMPLE, TranslationData
from transformer.data.languages import language_faults
from transformer.data.printable import console
from transformer.data.tokenizer import advice
from transformer.doctor.estimate import Plan, estimate, preset_for
from transformer.doctor.examination import Dropped, Examination
from transformer.doctor.fix import clean_copy
from transformer.doctor.report import cost_as_dict, findings_as_dicts, unknown_shares
from transformer.doctor.text import Line
from transformer.model import ModelConfig
from transformer.training.config import RunSettings


@dataclass(frozen=True)
class Training:
    """What training would be: its settings, and the experiment that they come from, if any."""

    settings: RunSettings
    model: dict[str, Any]
    trainer: dict[str, Any]
    experiment: str | None


def examine(
    corpus: DataSettings, training_for: Callable[[str], Training], fix: Path | None
) -> tuple[dict[str, Any], str | None]:
    """The report as plain data, and the experiment whose training was timed.

    `training_for` gives the training to be timed, by the name of the experiment that is recommended. `fix` is the
    folder of a cleaned copy, if one is to be written.
    """
    corpus.fetch()
    whole, corpus = corpus, corpus.with_splits()
    examination = Examination(corpus, _progress)
    pairs = examination.pairs["train"]
    preset = preset_for(pairs)
    training = training_for(preset)
    preset_advice = f"recommended for {pairs:,} pairs: experiment={preset}"
    if training.experiment != preset:
        tried = f"experiment={training.experiment}" if training.experiment else "the settings as given"
        preset_advice += f"; tried: {tried}"
    data, error = _prepare(training)
    sample = (line.text for line in islice(examination.lines("train"), LANGUAGE_SAMPLE))
    _, faults = language_faults(sample, corpus.languages)
    too_long = set(data.split("train").too_long.tolist()) if data else set()
    dropped = _check_pairs(examination, too_long, fix)
    tokenizer: dict[str, Any] = {"kind": training.settings.tokenizer.kind}
    tokenizer |= {"size": len(data.source_tokenizer), "unknown": unknown_shares(data)} if data else {"error": error}
    languages = dict(zip(("source_language", "target_language"), corpus.languages, strict=True))
    steps = int(training.trainer.get("max_steps", -1))
    report = {
        "corpus": {"name": corpus.name, **languages, "pairs": examination.pairs},
        "findings": findings_as_dicts(examination),
        "cut": corpus.cut_from(whole),
        "languages": faults,
        "byte_order_marks": list(map(str, examination.files_with_mark)),
        "dropped": dropped,
        "tokenizer": tokenizer,
        "advice": preset_advice,
        "tokenizer_advice": advice(corpus.languages, training.settings.tokenizer),
        "preset": preset,
        "estimate": cost_as_dict(estimate(_plan(training, data)), steps) if data else None,
    }
    return report, training.experiment


def _check_pairs(examination: Examination, too_long: set[int], fix: Path | None) -> int:
    """Run all checks and write a cleaned copy if asked to; return how many training pairs have a fault."""
    corpus, dropped = examination.settings, 0
    with clean_copy(fix, corpus.languages, list(corpus.splits)) if fix else nullcontext() as copy:

        def drop(pair: Dropped) -> None:
            nonlocal dropped
            dropped += 1
            if copy:
                copy.drop(pair)

        def keep(line: Line) -> None:
            if copy:
                copy.write("train", line)

        examination.run(too_long, keep, drop)
        if copy:
            for split in corpus.splits:
                for line in examination.lines(split) if split != "train" else ():
                    copy.write(split, line)
            if dropped == examination.pairs["train"]:
                raise ValueError(f"fix={fix}: every pair of train has a fault: nothing would be left")
    return dropped


def _prepare(training: Training) -> tuple[TranslationData | None, str]:
    """Prepare the corpus as training would, or say why it could not be trained on."""
    settings = training.settings
    try:
        data = TranslationData(settings.data, settings.tokenizer, settings.seed)
        data.split("train")
        return data, ""
    except ValueError as error:
        return None, str(error)


def _plan(training: Training, data: TranslationData) -> Plan:
    sizes = {"source_vocab_size": len(data.source_tokenizer), "target_vocab_size": len(data.target_tokenizer)}
    return Plan(
        data.settings,
        data.tokenizer_settings,
        from_dict(ModelConfig, training.model | sizes, "model"),
        training.settings.machine,
        str(training.trainer.get("accelerator", "auto")),
        str(training.trainer.get("precision", "32-true")),
        training.settings.seed,
    )


def _progress(lines: Iterable[Line], name: str) -> Iterable[Line]:
    """Progress on stderr; how many lines there are is not known before they were read."""
    return track(lines, name, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())
