"""A translator to use, from a checkpoint or from the folder of an export."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from transformer.device import available_threads
from transformer.export.formats import load as load_export
from transformer.files import HUGGINGFACE_TOKENIZER
from transformer.inference import Translator
from transformer.inference.ensemble import load_ensemble
from transformer.inference.settings import TranslateSettings, TranslatorSettings

if TYPE_CHECKING:
    from transformer.evaluation.choosing import Chooser

log = logging.getLogger(__name__)


def is_export(checkpoint: Path) -> bool:
    """Whether this is the folder of an export, which another program runs."""
    return checkpoint.is_dir() and not (checkpoint / HUGGINGFACE_TOKENIZER).is_file()


def load_translator(checkpoints: Sequence[Path], settings: TranslatorSettings) -> Translator:
    """Load a checkpoint, several as an ensemble, or an export.

    ValueError where it has not learned the languages that `settings` ask for, and for an export among several.
    """
    inference, machine = settings.inference, settings.machine
    languages = settings.source_language, settings.target_language
    exports = [*filter(is_export, checkpoints)]
    if exports:
        if len(checkpoints) > 1:
            raise ValueError(f"{exports[0]} is an export: an ensemble is of checkpoints, name what it was made of")
        if inference.precision != "auto":
            raise ValueError(f"precision={inference.precision}: that of an export was chosen when it was made")
        engine = load_export(exports[0], inference.device, machine.threads or available_threads())
        if (translator := engine.in_direction(*languages)) is engine:
            engine.warn_if_zero_shot()  # else `in_direction` does
    else:
        translator = load_ensemble(checkpoints, inference.device, inference.precision, *languages)
    translator.greedy_scores = False  # nothing that loads here shows them
    weights = translator.model.output.weight.dtype
    if isinstance(settings, TranslateSettings):
        translator.lines_of, translator.warns_of_sentences = settings.input or "", True
        if settings.text is not None and machine.threads is None:
            machine = replace(machine, threads=1)  # with so little work two wait for each other
    translator.configure_torch(machine)
    if inference.precision == "auto" and weights != torch.float32:
        log.info("computing in %s, which is fast here; precision=float32 is exact", str(weights).removeprefix("torch."))
    return translator


def load_chooser(translator: Translator, settings: TranslateSettings) -> Translator | Chooser:
    """What gives the n-best list of a text: the translator itself, or a choice among its hypotheses."""
    if settings.choose.method == "score":
        return translator
    from transformer.evaluation.choosing import Chooser  # brings libraries that load slowly

    return Chooser.load(translator, settings.choose, settings.inference)
