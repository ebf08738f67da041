"""How a translator is loaded and used, and how it chooses among its hypotheses: settings, read without torch."""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from transformer.config import PATH, SettingError, Settings
from transformer.machine import MachineSettings

LengthPenalty = Annotated[float, ">= -10", "<= 10"]
LengthRatio = Annotated[float, ">= 0", "<= 1000"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
SplitLines = Literal["long", "sentences", "never"]


@dataclass(frozen=True)
class Defaults:
    """Defaults that are saved with a model: they are used if a search does not set them."""

    length_penalty: LengthPenalty = 1.0  # a score is then the mean log-probability of the tokens
    length_ratio: LengthRatio = 2.0
    keeps_letterless: bool = True  # a text without a letter (numbers, emoji, time stamps) is not translated


@dataclass(frozen=True)
class SearchSettings(Settings):
    """How to search (`search`)."""

    method: Literal["greedy", "beam", "sampling"] = "beam"
    """beam | greedy | sampling"""
    beam: Annotated[int, ">= 1", "<= 1000"] = 5
    """hypotheses kept (beam)"""
    patience: Annotated[float, ">= 1", "<= 100"] = 1.0
    """a search ends after beam × patience hypotheses; 2 finds more long ones, but is slower (beam)"""
    length_penalty: LengthPenalty | None = None
    """α in score = log-probability / length^α (the length includes the end symbol); by default the α of the test in the
    model's run, or 1.0. This is fairseq's lenpen, not GNMT's penalty"""
    min_length: Annotated[int, ">= 0", "<= 1000000"] = 0
    """tokens, without the end symbol"""
    max_length: Annotated[int, ">= 1", "<= 1000000"] = 1024
    """tokens; a hypothesis ends at the smallest of this, length_ratio × source length + length_extra, and the model's
    own maximum"""
    length_ratio: LengthRatio | None = None
    """at most this number of target tokens for each source token; by default enough for the model's training pairs, and
    at least 2"""
    length_extra: Annotated[int, ">= 0", "<= 1000000"] = 20
    """at most this number of tokens beyond length_ratio × source length"""
    temperature: Annotated[float, ">= 0.001", "<= 1000"] = 1.0
    """below 1: probable ids are drawn more often (sampling)"""
    top_k: Annotated[int, ">= 0", "<= 1000000"] = 0
    """draws only among the k most probable ids; 0: all (sampling)"""
    top_p: Annotated[float, "> 0", "<= 1"] = 1.0
    """draws only among the most probable ids whose probabilities sum to this share (sampling)"""
    seed: Annotated[int, ">= 0", "<= 4294967295"] = 1
    """of the random draws (sampling)"""
    prefix: str | None = None
    """each translation begins with this text; spaces at its ends do not count"""
    no_repeat: Annotated[int, ">= 0", "<= 1000"] | None = None
    """n: no sequence of n tokens comes twice in a translation; 0: off; by default only a translation that repeats
    itself, or is empty, is searched again with n = 3"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_length > self.max_length:
            raise SettingError("min_length", f"={self.min_length} is above max_length={self.max_length}")

    @property
    def enough_hypotheses(self) -> int:
        """The search of a sentence ends with this number of hypotheses. Halves are rounded up, as in CTranslate2."""
        return math.floor(self.beam * self.patience + 0.5)

    def with_defaults(self, model: Defaults) -> "SearchSettings":
        """These settings, with the defaults of a model in place of None."""
        penalty = model.length_penalty if self.length_penalty is None else self.length_penalty
        ratio = model.length_ratio if self.length_ratio is None else self.length_ratio
        return replace(self, length_penalty=penalty, length_ratio=ratio)

    def max_lengths(self, source_lengths: list[int]) -> list[int]:
        """The largest allowed number of tokens of a hypothesis, for each sentence."""
        ratio = Defaults.length_ratio if self.length_ratio is None else self.length_ratio
        bounds = [round(ratio * length) + self.length_extra for length in source_lengths]
        return [max(1, self.min_length, min(self.max_length, bound)) for bound in bounds]


@dataclass(frozen=True)
class InferenceSettings(Settings):
    """Where to translate, in which precision, and how many tokens at a time."""

    device: str = "auto"
    """auto (a GPU if there is one) | cpu | cuda | cuda:1 | mps"""
    precision: Precision = "auto"
    """auto (bfloat16 if the hardware multiplies it fast) | float32 | bfloat16 | float16"""
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"] | None = None
    """sentences × longest source of a batch; by default 2048, on a GPU 8192"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"auto|cpu|mps|cuda(:(0|[1-9]\d*))?", self.device):
            raise SettingError(
                "device", f"={self.device} is not allowed; choose one of auto, cpu, cuda, cuda:1, …, mps"
            )


@dataclass(frozen=True)
class ChoiceSettings(Settings):
    """Which hypothesis of a search becomes the translation. docs/decoding.md says how long each choice takes."""

    choose: Literal["score", "mbr", "rerank"] = "score"
    """score: the one with the best score of the search | mbr (minimum Bayes risk): the one most similar to all |
    rerank: the one from which a model of the other direction translates back to the source with high probability"""
    samples: Annotated[int, ">= 2", "<= 1000"] = 32
    """with sampling: how many translations of each sentence are drawn (mbr, rerank)"""
    similarity: Literal["chrf", "bleu"] = "chrf"
    """measures how similar two hypotheses are (mbr)"""
    reverse: Annotated[str, PATH] | None = None
    """a run of the other direction, or of both directions (rerank)"""
    reverse_weight: Annotated[float, "> 0", "<= 1000"] = 1.0
    """the weight of log p(source | hypothesis), from the reverse run, added to log p(hypothesis | source) (rerank)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.choose == "rerank") != (self.reverse is not None):
            raise SettingError("choose", "=rerank and reverse, a run of the other direction, need each other")

    @property
    def models(self) -> list[Path]:
        """The models that a choice needs in addition to the translator."""
        return [Path(self.reverse)] if self.reverse else []

    def draws(self, search: SearchSettings) -> int:
        """How many times a text is translated to get hypotheses to choose from."""
        return self.samples if self.choose != "score" and search.method == "sampling" else 1

    def check(self, search: SearchSettings) -> None:
        """Raises SettingError for a search with only one hypothesis."""
        if self.choose != "score" and (search.method == "greedy" or (search.method == "beam" and search.beam == 1)):
            raise SettingError("choose", f"={self.choose} needs several hypotheses: sampling, or a beam of 2 or more")


@dataclass(frozen=True)
class KeepSettings(Settings):
    """Text that a translation keeps, and terms that it must use. Needs a model trained with `data.placeholders`, which
    always keeps addresses, tags, {names}, %s and numbers of many digits or with separators."""

    keep: str | None = None
    """a regular expression: matching text stays unchanged (addresses, tags, {names}, %s and long numbers always do)"""
    glossary: Annotated[str, PATH] | None = None
    """a file of terms that translations must use: each line is a source term, a tab and the target term"""


@dataclass(frozen=True)
class TranslatorSettings(Settings):
    """The languages that choose one of a translator's directions, and how it translates."""

    source_language: str | None = None
    target_language: str | None = None
    search: SearchSettings = SearchSettings()
    machine: MachineSettings = MachineSettings()
    inference: InferenceSettings = InferenceSettings()
    keep: KeepSettings = KeepSettings()


@dataclass(frozen=True)
class AlignmentSettings(Settings):
    """The cross-attention weights for aligning; by default those that training found."""

    layer: Annotated[int, ">= 1", "<= 1000000"] | None = None
    """of the decoder, counted from 1; by default the layer and head that training found"""
    head: Annotated[int, ">= 1", "<= 1000000"] | None = None
    """counted from 1; by default the mean of all heads of the layer"""
    shifted: bool = False
    """use the attention of the step that reads a target token, not of the one that writes it"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is None and (self.head is not None or self.shifted):
            raise SettingError("layer", " is missing: head and shifted need a layer")
