"""The metrics: BLEU, chrF and TER, all of them by sacrebleu, with signatures.

To add one: its line in METRICS here, and its name in `metrics:`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Annotated, Any

import sacrebleu.metrics
from sacrebleu.metrics import BLEU, CHRF, TER

from transformer.config import OFF_CARD, Registry, SettingError, Settings, from_dict, setting, shown
from transformer.data.languages import HAN, KANA, LANGUAGE_SAMPLE, base_language, commonest_script


@dataclass(frozen=True)
class Metric:
    """`label` is the name for people; `build` makes sacrebleu's metric for texts in a target language."""

    label: str
    build: Callable[[str], sacrebleu.metrics.base.Metric]
    higher_is_better: bool = True


# The languages for which sacrebleu has tokenizers for BLEU, and special rules for TER.
SEGMENTERS = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# Languages without spaces between words for which sacrebleu has no tokenizer: every character counts as a word.
BY_CHARACTER = ("th", "lo", "km", "my")
# Their scripts, for references with these letters and another code.
SCRIPTS = {"HANGUL": "ko", "THAI": "th", "LAO": "lo", "KHMER": "km", "MYANMAR": "my"}


def scored_language(code: str, references: Iterable[str]) -> str:
    """The language whose rules are used to count words: that of the code, or, if this has no special rules, one that
    fits the script of the references."""
    if (language := base_language(code)) in (*SEGMENTERS, *BY_CHARACTER):
        return language
    texts = list(islice(references, LANGUAGE_SAMPLE))
    script = commonest_script(texts)
    if script == HAN:
        return "ja" if any(map(KANA.search, texts)) else "zh"
    return SCRIPTS.get(script or "", language)


@cache
def bleu(language: str) -> BLEU:
    """BLEU with the tokenizer for the target language.

    Raises ValueError if the package for Japanese or Korean is not installed.
    """
    code = base_language(language)
    try:
        return BLEU(tokenize=SEGMENTERS.get(code, "char" if code in BY_CHARACTER else "13a"))
    except (ImportError, RuntimeError) as error:
        raise ValueError(f"BLEU of {language} text needs a word segmenter: pip install 'sacrebleu[{code}]'") from error


def chrf(language: str) -> CHRF:
    """chrF; it is the same for all languages."""
    return CHRF()


def ter(language: str) -> TER:
    """TER; in Chinese, Japanese and Korean text every Chinese character counts as a word, and punctuation too."""
    is_asian = base_language(language) in SEGMENTERS
    return TER(normalized=is_asian, asian_support=is_asian)


# BLEU and chrF go from 0 to 100, TER counts edits per 100 words.
METRICS: Registry[Metric] = Registry(
    {
        "bleu": Metric("BLEU", bleu),
        "chrf": Metric("chrF", chrf),
        "ter": Metric("TER", ter, higher_is_better=False),
    }
)


@dataclass(frozen=True)
class MetricSettings(Settings):
    """The metrics; the first decides which of two systems is better."""

    metrics: Annotated[list[Annotated[str, METRICS]], OFF_CARD] = setting(["bleu", "chrf", "ter"])
    """bleu | chrf | ter, the most important first"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.metrics:
            raise SettingError("metrics", f" is empty: choose some of {', '.join(METRICS)}")


@dataclass(frozen=True)
class Scores:
    """The value of each metric and sacrebleu's signature: how it was computed."""

    values: dict[Annotated[str, METRICS], float]
    signatures: dict[Annotated[str, METRICS], str]

    def __post_init__(self) -> None:
        if not self.values or self.values.keys() != self.signatures.keys():
            raise ValueError(f"scores of {', '.join(self.values)} with signatures of {', '.join(self.signatures)}")

    def __getitem__(self, metric: str) -> float:
        return self.values[metric]

    def to_dict(self) -> dict[str, Any]:
        """The format of files: {"bleu": 31.2, …, "signatures": {"bleu": "nrefs:1|…", …}}."""
        return {**self.values, "signatures": self.signatures}

    @classmethod
    def from_dict(cls, plain: Any, path: str) -> "Scores":
        """Reads and checks the format of `to_dict`. Raises ValueError that names the `path`."""
        if not isinstance(plain, dict):
            raise ValueError(f"{path} must be scores by metric, not {shown(plain)}")
        values = {key: value for key, value in plain.items() if key != "signatures"}
        try:
            return from_dict(cls, {"values": values, "signatures": plain.get("signatures")}, "")
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def build_metrics(names: Iterable[str], language: str) -> dict[str, sacrebleu.metrics.base.Metric]:
    """sacrebleu's metric for each name in METRICS, for a `scored_language`. ValueError if a package is missing."""
    return {name: METRICS[name].build(language) for name in names}


def score(hypotheses: list[str], references: list[str], language: str, metrics: Iterable[str]) -> Scores:
    """Scores one hypothesis per sentence against one reference per sentence; `metrics` are names in METRICS.

    Raises ValueError if their numbers differ or are 0.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} translations cannot be scored against {len(references)} references")
    built = build_metrics(metrics, scored_language(language, references))
    values = {name: metric.corpus_score(hypotheses, [references]).score for name, metric in built.items()}
    return Scores(values, {name: str(metric.get_signature()) for name, metric in built.items()})
