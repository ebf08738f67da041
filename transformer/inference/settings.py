"""How a translator is loaded, and how it chooses among its hypotheses; configs/translate.yaml explains the settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from transformer.device import check_precision, parse_device
from transformer.inference.search import SearchSettings


@dataclass(frozen=True)
class InferenceSettings:
    """Where to translate, in which precision, how many tokens at a time, and the file of a shortlist, if any."""

    device: str
    precision: str
    batch_tokens: Annotated[int, ">= 1", "<= 1000000000"] | None
    shortlist: str | None

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
