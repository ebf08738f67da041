"""Settings of evaluate and compare, read without torch."""

from dataclasses import dataclass
from typing import Annotated

from transformer.config import PATH, SettingError, Settings
from transformer.evaluation.metrics import MetricSettings
from transformer.inference.settings import InferenceSettings, Precision


@dataclass(frozen=True)
class EvaluationSettings(MetricSettings):
    """The texts to score (a split of the run's corpus, or files), their languages, and the metrics."""

    split: str | None = None
    """test | validation | train | a key of data.extra_tests; by default test"""
    input: Annotated[str, PATH] | None = None
    """instead of a split: your own file, one sentence a line …"""
    reference: Annotated[str, PATH] | None = None
    """… and a file with the translation of each line"""
    alignments: Annotated[str, PATH] | None = None
    """a file of word alignments of these pairs: adds the alignment error rate of every layer and head"""
    source: str | None = None
    """the language of the text; with --target it chooses one of several directions of a model"""
    target: str | None = None
    """the language to translate into"""
    output: Annotated[str, PATH] | None = None
    """the folder for evaluation.json and hypotheses.SPLIT.txt; by default the run's own"""
    cache: Annotated[str, PATH] = ".cache"
    """the folder of prepared corpora"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.input is None) != (self.reference is None):
            missing, given = ("input", "reference") if self.input is None else ("reference", "input")
            raise SettingError(missing, f" is missing: --{given} needs it")
        if self.input and self.split:
            raise SettingError("split", " is for the run's corpus, --input for your own file: leave one of them out")


@dataclass(frozen=True)
class EvaluationInference(InferenceSettings):
    """The same as for translating, but with an exact precision by default."""

    precision: Precision = "float32"
    """float32: the same score on every machine | bfloat16 | float16 | auto: as in translate.py"""


@dataclass(frozen=True)
class CompareSettings(Settings):
    """The sentences to compare, the number of random draws, and the output."""

    split: str = "test"
    """a split that all runs have translated: test | a key of data.extra_tests | in one direction: test.fr-en"""
    sentences: Annotated[int, ">= 0", "<= 1000000"] = 5
    """show this number of sentences, those that differ most"""
    resamples: Annotated[int, ">= 40", "<= 100000"] = 1000  # at least 40, because a fortieth is left out at both ends
    """the number of resamples of the paired bootstrap"""
    trials: Annotated[int, ">= 1", "<= 1000000"] = 10000
    """the number of trials of approximate randomization"""
    comet: str | None = None
    """a COMET model (Unbabel/wmt22-comet-da, or a .ckpt): needs the program comet-score"""
    output: Annotated[str, PATH] | None = None
    """a folder for comparison.json and comparison.png"""
    cache: Annotated[str, PATH] = ".cache"
    """the folder of prepared corpora"""
