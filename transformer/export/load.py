"""A translator to use, from a checkpoint or from the folder of an export, with the settings of its use."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch

from transformer.device import MachineSettings, available_threads
from transformer.export.formats import load as load_export
from transformer.files import HUGGINGFACE_TOKENIZER, is_written_through
from transformer.inference import Translator
from transformer.inference.alignment_head import AlignmentHead, check_head, default_head
from transformer.inference.ensemble import load_ensemble
from transformer.inference.search import SearchSettings
from transformer.inference.settings import ChoiceSettings, InferenceSettings
from transformer.inference.translator import SplitLines

if TYPE_CHECKING:
    from transformer.evaluation.choosing import Chooser

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TranslatorSettings:
    """The languages that choose among a translator's directions, and how it is used."""

    source_language: str | None
    target_language: str | None
    search: SearchSettings
    machine: MachineSettings
    inference: InferenceSettings


@dataclass(frozen=True)
class AlignmentSettings:
    """By which cross-attention weights to align (see `AlignmentHead`); without a layer by those that training found."""

    layer: Annotated[int, ">= 1", "<= 1000000"] | None
    head: Annotated[int, ">= 1", "<= 1000000"] | None
    shifted: bool

    def __post_init__(self) -> None:
        if self.layer is None and (self.head is not None or self.shifted):
            raise ValueError("alignment.head= and alignment.shifted= are of a layer: give alignment.layer= too")

    def head_of(self, translator: Translator) -> AlignmentHead:
        """Raises ValueError for a layer or a head that the model does not have, and for an export."""
        if translator.model.output.weight.is_meta:
            raise ValueError("alignments= needs a checkpoint: the engine of an export shows no attention weights")
        config = translator.model.config
        if self.layer is None:
            return translator.alignment or default_head(config)
        head = AlignmentHead(self.layer, self.head, self.shifted)
        check_head(head, config)
        return head


@dataclass(frozen=True)
class TranslateSettings(TranslatorSettings):
    """`text`, else `input`, else stdin is translated; `n_best` hypotheses of each line are written. With `resume` an
    `output` that was stopped goes on. `alignments` is a file for the word alignments of the best hypotheses."""

    text: str | None
    input: str | None
    output: str | None
    resume: bool
    choose: ChoiceSettings
    alignments: str | None
    alignment: AlignmentSettings
    n_best: Annotated[int, ">= 1", "<= 1000"]
    split_lines: SplitLines

    def __post_init__(self) -> None:
        self.choose.check(self.search)
        setting, most = "search.beam", self.search.beam
        if self.search.method != "beam":
            setting, most = "choose.samples", self.choose.draws(self.search)
        if self.n_best > most:
            is_one = most == 1 and self.search.method != "beam"
            allowed = f"1 with search={self.search.method}" if is_one else f"from 1 to {setting}={most}"
            raise ValueError(f"n_best={self.n_best} must be {allowed}")
        if self.text is not None and self.input is not None:
            raise ValueError("give either text= or input=, not both")
        if self.alignments is not None and self.split_lines == "sentences":
            raise ValueError("alignments= is of whole lines: leave out split_lines=sentences")
        if self.alignments is not None and self.resume:
            raise ValueError("resume=true continues the translations alone: leave alignments= out")
        named = {"input": self.input, "output": self.output, "alignments": self.alignments}
        files = {key: path for key, path in named.items() if path is not None and not is_written_through(Path(path))}
        for (key, path), (other, other_path) in combinations(files.items(), 2):
            if os.path.realpath(path) == os.path.realpath(other_path):
                raise ValueError(f"{key}= and {other}= are the same file, {path}: give two")

    def deciding(self) -> dict[str, Any]:
        """The settings that decide what a translation is, as plain data."""
        elsewhere = ("text", "input", "output", "resume", "alignments", "alignment")
        return {key: value for key, value in asdict(self).items() if key not in elsewhere}


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
        if inference.shortlist is not None:
            raise ValueError("shortlist= needs a checkpoint: the engine of an export scores the whole vocabulary")
        engine = load_export(exports[0], inference.device, machine.threads or available_threads())
        if (translator := engine.in_direction(*languages)) is engine:
            engine.warn_if_zero_shot()  # else `in_direction` does
    else:
        translator = load_ensemble(checkpoints, inference.device, inference.precision, *languages, inference.shortlist)
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
