"""Choosing among the hypotheses of a search by minimum Bayes risk or with a reverse model."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sacrebleu.metrics import BLEU

from transformer.config import Registry
from transformer.data.directions import arrow
from transformer.inference.parts import Translation
from transformer.inference.search import normalized
from transformer.inference.settings import ChoiceSettings, InferenceSettings, SearchSettings, SplitLines
from transformer.inference.translator import Translator

# How similar two hypotheses are: sacrebleu's metrics by name, for texts of a language.
SIMILARITIES: Registry[Any] = Registry(
    chrf="transformer.evaluation.metrics:chrf", bleu="transformer.evaluation.metrics:bleu"
)


def pair_log_probabilities(
    translator: Translator, pairs: Sequence[tuple[str, str]], batch_tokens: int | None = None
) -> list[float]:
    """log p(target | source), with the end symbol; -inf if a side is empty or has more tokens than the model has
    positions."""
    sources, targets = (
        tokenizer.encode_all([pair[side] for pair in pairs]) for side, tokenizer in enumerate(translator.tokenizers)
    )
    results = [-math.inf] * len(pairs)
    fitting = [index for index in range(len(pairs)) if translator.can_score(sources[index], targets[index])]
    chosen = [[ids[index] for index in fitting] for ids in (sources, targets)]
    found = translator.token_log_probabilities(chosen[0], chosen[1], batch_tokens)
    for index, values in zip(fitting, found, strict=True):
        results[index] = math.fsum(values)
    return results


def references_loss(
    translator: Translator, pairs: Sequence[tuple[str, str]], batch_tokens: int | None = None
) -> tuple[float, int]:
    """−Σ log p(reference | source) in nats, and the number of tokens of these references; pairs that are empty on a
    side or too long for the model are left out."""
    targets = translator.target_tokenizer.encode_all([target for _, target in pairs])
    values = pair_log_probabilities(translator, pairs, batch_tokens)
    scored = [(value, len(ids) + 1) for value, ids in zip(values, targets, strict=True) if value != -math.inf]
    return -math.fsum(value for value, _ in scored), sum(tokens for _, tokens in scored)


class Chooser:
    """Translates with `translator`, and sorts the hypotheses of each text by the chosen method."""

    def __init__(self, translator: Translator, settings: ChoiceSettings, reverse: Translator | None = None) -> None:
        """Raises ValueError for a `reverse` that does not translate back."""
        self.translator, self.settings, self.reverse = translator, settings, reverse
        if reverse is not None and reverse.languages != translator.languages[::-1]:
            there, back = arrow(translator.languages), arrow(reverse.languages)
            raise ValueError(f"--reverse {settings.reverse} translates {back}: it must be the reverse of {there}")

    @classmethod
    def load(cls, translator: Translator, settings: ChoiceSettings, inference: InferenceSettings) -> "Chooser":
        """Loads the reverse run of the settings. Raises the errors of `Translator.load`."""
        if settings.reverse is None:
            return cls(translator, settings)
        source, target = translator.languages
        try:
            reverse = Translator.load(settings.reverse, inference.device, inference.precision, target, source)
        except ValueError as error:
            raise ValueError(f"--reverse {settings.reverse}: {error}") from error
        return cls(translator, settings, reverse)

    def n_best(
        self,
        texts: list[str],
        search: SearchSettings,
        batch_tokens: int | None = None,
        split_lines: SplitLines = "long",
        line_numbers: Sequence[int] | None = None,
    ) -> list[list[Translation]]:
        """As `Translator.n_best`, but sorted by the choice; scores and log-probabilities are those of the search."""
        method, draws = self.settings.choose, self.settings.draws(search)
        # Every seed has its own draws (until the numbers wrap).
        searches = [replace(search, seed=(search.seed * draws + draw) % 2**32) for draw in range(draws)]
        drawn = self.translator.n_best_of_each(texts, searches, batch_tokens, split_lines, line_numbers)
        n_best = [[one for hypotheses in of_text for one in hypotheses] for of_text in zip(*drawn, strict=True)]
        if method == "mbr":
            return [self._by_consensus(hypotheses, drawn=draws > 1) for hypotheses in n_best]
        if method == "rerank" and self.reverse is not None:
            own = search.with_defaults(self.translator.defaults)
            # Several draws may give the same hypothesis.
            distinct = [list({tuple(one.pieces): one for one in hypotheses}.values()) for hypotheses in n_best]
            return self._by_reverse(self.reverse, texts, distinct, own, batch_tokens)
        return n_best

    def _by_consensus(self, hypotheses: list[Translation], drawn: bool) -> list[Translation]:
        """Sorts by the expected metric with all hypotheses as references, also itself (Kumar and Byrne 2004, Eikema and
        Aziz 2020). The weight of each is its share of the draws, or of the probability of all in the beam."""
        shares: dict[str, float] = {}
        best = max(one.log_probability for one in hypotheses)
        for one in hypotheses:
            shares[one.text] = shares.get(one.text, 0.0) + (1.0 if drawn else math.exp(one.log_probability - best))
        metric = copy.copy(SIMILARITIES[self.settings.similarity](self.translator.target_language))
        if isinstance(metric, BLEU):
            metric.effective_order = True  # so that sentences shorter than four words are scored too
        expected = {
            text: sum(share * metric.sentence_score(text, [other]).score for other, share in shares.items())
            for text in shares
        }
        best_of_text = {one.text: one for one in sorted(hypotheses, key=lambda one: one.score)}  # the last one stays
        return sorted(best_of_text.values(), key=lambda one: (-expected[one.text], -one.score))

    def _by_reverse(
        self,
        reverse: Translator,
        texts: list[str],
        n_best: list[list[Translation]],
        search: SearchSettings,
        batch_tokens: int | None,
    ) -> list[list[Translation]]:
        """Sorts by log p(hypothesis | source) + weight × log p(source | hypothesis), a noisy channel (Yee et al. 2019),
        divided by a power of the hypothesis' length, as in the search."""
        pairs = [(one.text, text) for text, hypotheses in zip(texts, n_best, strict=True) for one in hypotheses]
        channel = iter(pair_log_probabilities(reverse, pairs, batch_tokens))
        ordered = []
        for hypotheses in n_best:
            totals = [
                normalized(
                    one.log_probability + self.settings.reverse_weight * next(channel),
                    len(one.pieces) + 1,
                    search.length_penalty,
                )
                for one in hypotheses
            ]
            # If the reverse model can score none (a text that is too long for it), the search's own score decides.
            order = sorted(range(len(hypotheses)), key=lambda index: (-totals[index], -hypotheses[index].score))
            ordered.append([hypotheses[index] for index in order])
        return ordered
