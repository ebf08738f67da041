"""How a translator is loaded and used, and how it chooses among its hypotheses: configs/translate.yaml explains it."""

import os
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from transformer.device import MachineSettings, check_precision, parse_device
from transformer.files import is_written_through
from transformer.inference.alignment_head import AlignmentHead, check_head, default_head
from transformer.inference.search import SearchSettings
from transformer.inference.translator import SplitLines, Translator


@dataclass(frozen=True)
class InferenceSettings:
    """Where to translate, in which precision, and how many tokens at a time."""

    device: str
    precision: str
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"] | None

    def __post_init__(self) -> None:
        parse_device(self.device)
        check_precision(self.precision)


@dataclass(frozen=True)
class ChoiceSettings:
    """How a translation is chosen; configs/choose/score.yaml explains every setting."""

    method: Literal["score", "mbr", "rerank"]
    samples: Annotated[int, ">= 2", "<= 1000"]
    metric: Literal["chrf", "bleu"]
    reverse: str | None
    weight: Annotated[float, "> 0", "<= 1000"]

    def __post_init__(self) -> None:
        if (self.method == "rerank") != (self.reverse is not None):
            raise ValueError("choose=rerank and choose.reverse=RUN, a run of the other direction, go together")

    @property
    def models(self) -> list[Path]:
        """Those that a choice needs besides the one that translates."""
        return [Path(self.reverse)] if self.reverse else []

    def draws(self, search: SearchSettings) -> int:
        """How many times a text is translated to have hypotheses to choose from."""
        return self.samples if self.method != "score" and search.method == "sampling" else 1

    def check(self, search: SearchSettings) -> None:
        """Raises ValueError for a search that leaves nothing to choose from."""
        if self.method != "score" and (search.method == "greedy" or (search.method == "beam" and search.beam == 1)):
            raise ValueError(f"choose={self.method} needs several hypotheses: search=sampling, or a beam of 2 or more")


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
