"""Loads a translator from a model file, from several, or from an export that another program runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from transformer.config import Registry, SettingError
from transformer.data.placeholders import read_glossary
from transformer.device import available_threads
from transformer.files import EXPORT_MANIFEST
from transformer.inference.ensemble import load_ensemble
from transformer.inference.model_file import READERS
from transformer.inference.settings import ChoiceSettings, InferenceSettings, KeepSettings, TranslatorSettings
from transformer.inference.translator import Translator

if TYPE_CHECKING:
    from transformer.inference.choosing import Chooser

log = logging.getLogger(__name__)


# Folders whose model another program runs: for the file that marks such a folder, the function that loads it.
ENGINES: Registry[Any] = Registry({EXPORT_MANIFEST: "transformer.tools.export.engine:load"}, extra="export")


def engine_of(folder: Path) -> Callable[[Path, str, int], Translator] | None:
    """The function that loads the folder of an export, which another program runs. It takes the folder, a device and a
    number of threads. None if the folder is no such export."""
    if any((folder / name).is_file() for name in READERS):  # an export for the hub, which this program reads
        return None
    return next((ENGINES[name] for name in ENGINES if (folder / name).is_file()), None)


def with_kept(translator: Translator, settings: KeepSettings, columns: list[int] | None = None) -> Translator:
    """The translator with these settings; `columns` of the glossary hold source and target terms.

    SettingError for a model without placeholders, OSError or ValueError for a file that is no glossary.
    """
    if settings == KeepSettings():
        return translator
    if translator.keeper is None:
        flag = "keep" if settings.glossary is None else "glossary"
        raise SettingError(flag, " is for a model that was trained with data.placeholders, which this one was not")
    glossary = read_glossary(Path(settings.glossary), translator.languages, columns) if settings.glossary else None
    try:
        return translator.keeping(settings.keep, glossary)
    except ValueError as error:
        raise SettingError("keep" if settings.glossary is None else "glossary", f": {error}") from error


def load_translator(checkpoints: Sequence[Path], settings: TranslatorSettings) -> Translator:
    """Load a checkpoint, several as an ensemble, or an export.

    ValueError if it has not learned the languages in `settings`, and for an export among several.
    """
    inference, machine = settings.inference, settings.machine
    languages = settings.source_language, settings.target_language
    if exports := [(path, load) for path in checkpoints if (load := engine_of(path))]:
        [path, load], *_ = exports
        if len(checkpoints) > 1:
            raise ValueError(f"{path} is an export: an ensemble needs checkpoints: give the run that it was made from")
        if inference.precision != "auto":
            raise ValueError(f"--precision {inference.precision}: an export has the precision that it was made with")
        engine = load(path, inference.device, machine.threads or available_threads())
        if (translator := engine.in_direction(*languages)) is engine:
            engine.warn_if_zero_shot()  # otherwise `in_direction` warns
    else:
        translator = load_ensemble(checkpoints, inference.device, inference.precision, *languages)
    translator.greedy_scores = False  # no caller of this function shows them
    weights = translator.model.output.weight.dtype
    translator.configure_torch(machine)
    if inference.precision == "auto" and weights != torch.float32:
        log.info(
            "computing in %s, which is fast here; --precision float32 is exact", str(weights).removeprefix("torch.")
        )
    return with_kept(translator, settings.keep)


def load_chooser(translator: Translator, choice: ChoiceSettings, inference: InferenceSettings) -> Translator | Chooser:
    """The object that gives the n-best list of a text: the translator itself, or a `Chooser`."""
    if choice.choose == "score":
        return translator
    from transformer.inference.choosing import Chooser  # imports libraries that load slowly

    return Chooser.load(translator, choice, inference)
