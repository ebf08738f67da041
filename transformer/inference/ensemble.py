"""Several models as one translator: every step uses the mean of their probabilities."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from transformer.data.directions import arrow
from transformer.inference.scoring import log_mean
from transformer.inference.translator import Translator


class EnsembleState(NamedTuple):
    """The state of each model's search."""

    members: tuple[Any, ...]

    def select(self, origins: Tensor | None, sentences: Tensor | None = None) -> "EnsembleState":
        return EnsembleState(tuple(state.select(origins, sentences) for state in self.members))


class Ensemble(Translator):
    """Translates with all its members: p(next token) is the mean of theirs. It takes the time of all of them together.

    The members have the same vocabularies and languages; sizes and attentions may differ. The first one aligns words,
    and its length penalty is used.
    """

    def __init__(self, members: Sequence[Translator]) -> None:
        """Raises ValueError for a member with another vocabulary or language than the first (members are counted from
        1), and TypeError if one is no translator."""
        if not members:
            raise ValueError("an ensemble needs a model or more")
        for number, member in enumerate(members, 1):
            if not isinstance(member, Translator):
                kind = type(member).__name__
                raise TypeError(f"model {number} is no Translator but a {kind}: Translator.load makes one of a file")
        first = members[0]
        super().__init__(first.model, first.tokenizers, first.languages, first.directions)
        self.alignment, self.defaults, self.members = first.alignment, first.defaults, tuple(members)
        self.models = [member.model for member in members]
        for number, member in enumerate(members[1:], 2):
            if member.languages != first.languages:
                raise ValueError(
                    f"model {number} translates {arrow(member.languages)}, model 1 {arrow(first.languages)}: "
                    "an ensemble has one direction"
                )
            if [one.digest for one in member.tokenizers] != [one.digest for one in first.tokenizers]:
                raise ValueError(
                    f"model {number} has other tokenizers than model 1: the models of an ensemble share a vocabulary "
                    "(train them on one corpus, with the same settings of the tokenizer and other seeds)"
                )

    def init_state(self, source: Int[Tensor, "sentences source"]) -> EnsembleState:
        return EnsembleState(tuple(member.init_state(source) for member in self.members))

    def log_probabilities(
        self, ids: Int[Tensor, " rows"], state: EnsembleState
    ) -> tuple[Float[Tensor, "rows vocabulary"], EnsembleState]:
        steps = [
            member.log_probabilities(ids, of_member)
            for member, of_member in zip(self.members, state.members, strict=True)
        ]
        return log_mean([scores for scores, _ in steps]), EnsembleState(tuple(of_member for _, of_member in steps))

    def logits(
        self, ids: Int[Tensor, " rows"], state: EnsembleState
    ) -> tuple[Float[Tensor, "rows vocabulary"], EnsembleState]:
        """Log-probabilities: logits of several models cannot be averaged."""
        return self.log_probabilities(ids, state)

    @classmethod
    def load(cls, *arguments: object, **settings: object) -> "Ensemble":
        raise ValueError("an ensemble has no file of its own: load_ensemble takes the files of its models")

    def save(self, path: str | Path) -> None:
        raise ValueError("an ensemble cannot be saved in one file: give the files of all its models to load_ensemble")


def load_ensemble(
    paths: Sequence[str | Path],
    device: str = "cpu",
    precision: str = "float32",
    source_language: str | None = None,
    target_language: str | None = None,
) -> Translator:
    """Loads the translator of one file, or an `Ensemble` of several files. Raises the errors of these, and ValueError
    without a file."""
    if isinstance(paths, str | Path):
        raise TypeError(f"paths must be a list of files, not one: load_ensemble(['{paths}', …])")
    members = [Translator.load(path, device, precision, source_language, target_language) for path in paths]
    return Ensemble(members) if len(members) != 1 else members[0]
