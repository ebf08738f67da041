"""A translator to use: of a model file, of several, or of a folder that another program runs."""

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


# Folders whose model another program runs: by the file that tells one, what makes a translator of it.
ENGINES: Registry[Any] = Registry({EXPORT_MANIFEST: "transformer.tools.export.engine:load"}, extra="export")


def engine_of(folder: Path) -> Callable[[Path, str, int], Translator] | None:
    """What loads the folder of an export, which another program runs: called with it, a device and a number of threads;
    None for anything else."""
    if any((folder / name).is_file() for name in READERS):  # an export for the hub, which we read
        return None
    return next((ENGINES[name] for name in ENGINES if (folder / name).is_file()), None)


def with_kept(translator: Translator, settings: KeepSettings, columns: list[int] | None = None) -> Translator:
    """The translator, which keeps what the settings say; `columns` of the glossary hold source and target terms.

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

    ValueError where it has not learned the languages that `settings` ask for, and for an export among several.
    """
    inference, machine = settings.inference, settings.machine
    languages = settings.source_language, settings.target_language
    if exports := [(path, load) for path in checkpoints if (load := engine_of(path))]:
        [path, load], *_ = exports
        if len(checkpoints) > 1:
            raise ValueError(f"{path} is an export: an ensemble is of checkpoints, name what it was made of")
        if inference.precision != "auto":
            raise ValueError(f"--precision {inference.precision}: that of an export was chosen when it was made")
        engine = load(path, inference.device, machine.threads or available_threads())
        if (translator := engine.in_direction(*languages)) is engine:
            engine.warn_if_zero_shot()  # else `in_direction` does
    else:
        translator = load_ensemble(checkpoints, inference.device, inference.precision, *languages)
    translator.greedy_scores = False  # nothing that loads here shows them
    weights = translator.model.output.weight.dtype
    translator.configure_torch(machine)
    if inference.precision == "auto" and weights != torch.float32:
        log.info(
            "computing in %s, which is fast here; --precision float32 is exact", str(weights).removeprefix("torch.")
        )
    return with_kept(translator, settings.keep)


def load_chooser(translator: Translator, choice: ChoiceSettings, inference: InferenceSettings) -> Translator | Chooser:
    """What gives the n-best list of a text: the translator itself, or a choice among its hypotheses."""
    if choice.choose == "score":
        return translator
    from transformer.inference.choosing import Chooser  # brings libraries that load slowly

    return Chooser.load(translator, choice, inference)
