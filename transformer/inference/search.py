"""Finds a good target, one token at a time, with a function that scores the next token.

Nothing here depends on Transformers. The caller gives two functions:

- `step(ids, state)` takes the newest id of every row (hypothesis), [rows], and returns log-probabilities [rows,
  vocabulary] and the next state. The rows of a sentence are neighbors, and all sentences have the same number of rows.
  The search may overwrite the log-probabilities. With logits instead, greedy search finds the same ids, but its scores
  mean nothing.
- `state.select(origins, sentences)` returns the state of the rows that continue. `sentences` are the indices of the
  sentences to keep (None: all). `origins` [kept sentences, hypotheses] says which hypothesis of its sentence each new
  row continues (None: the same one).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.inference.restrictions import Carried, Restrictions
from transformer.inference.settings import Defaults, SearchSettings
from transformer.kernels.top_k import best_sums, largest

# Finished sentences are removed from the batch if at least this share of it is finished, because removing them copies
# the rest.
COMPACT_WHEN_FINISHED = 0.25


@runtime_checkable
class State(Protocol):
    """The state of a decoder between steps: its cache."""

    def select(self, origins: Tensor | None, sentences: Tensor | None = None) -> Any: ...


Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
Ids = Int[Tensor, " sentences"]


def normalized(log_probability: float, length: int, length_penalty: float | None) -> float:
    """log-probability / length^length_penalty, by which hypotheses are compared. `length` counts EOS.

    (It is fairseq's `lenpen`, not GNMT's ((5 + length) / 6)^α, which Vaswani et al. 2017 use with α = 0.6. The page's
    search.js has the same equation; CTranslate2 and transformers have their own.)
    """
    return log_probability / length ** (Defaults.length_penalty if length_penalty is None else length_penalty)


class Hypothesis(NamedTuple):
    """Target ids without BOS and EOS, their log-probability, and their score, which is `normalized`."""

    ids: list[int]
    score: float
    log_probability: float


def unfinished(finished: list[bool], device: torch.device) -> Tensor | None:
    """The indices of the sentences that are not finished; None if only few are finished, so that all stay."""
    if sum(finished) < COMPACT_WHEN_FINISHED * len(finished):
        return None
    return torch.tensor([index for index, done in enumerate(finished) if not done], device=device)


def beam_search(
    step: Step,
    state: State,
    bos_ids: Ids,
    eos: int,
    max_lengths: list[int],
    settings: SearchSettings,
    restrict: Restrictions,
) -> list[list[Hypothesis]]:
    """The `beam` best hypotheses of each sentence, best first.

    Every step takes the 2 × `beam` best continuations of a sentence. Those among the first `beam` that end become
    hypotheses; the best `beam` that do not end stay in the beam. The search of a sentence continues until it has
    `beam` × `patience` hypotheses (as in CTranslate2): a longer one may have a better score than the first. At its
    maximum length every hypothesis ends.
    """
    beam, enough, device = settings.beam, settings.enough_hypotheses, bos_ids.device
    hypotheses: list[list[Hypothesis]] = [[] for _ in max_lengths]
    sentences, finished = list(range(len(bos_ids))), [False] * len(bos_ids)
    ids, totals = bos_ids[:, None], torch.zeros(len(bos_ids), 1, dtype=torch.float32, device=device)
    tokens = torch.empty(len(bos_ids), 1, 0, dtype=torch.long, device=device)
    for position in range(max(max_lengths) + 1):
        log_probs, state = step(ids.flatten(), state)
        width, vocabulary = ids.size(1), log_probs.size(1)  # one row per sentence at first, then `beam`
        restrict(log_probs, tokens.flatten(0, 1), sentences)
        log_probs, at_limit = log_probs.view(-1, width, vocabulary), [max_lengths[i] == position for i in sentences]
        if any(at_limit):
            goes_on = torch.arange(vocabulary, device=device) != eos
            must_end = torch.tensor(at_limit, device=device)[:, None, None]
            log_probs = log_probs.masked_fill_(must_end & goes_on, -torch.inf)
        # Each row has one way to end, so at least `beam` of 2 × beam candidates continue.
        best, origins, ids = best_sums(log_probs, totals, min(2 * beam, width * vocabulary))
        ends = ids == eos
        if len(ended := (ends & (best > -torch.inf))[:, :beam].nonzero()):
            # All at once, because each `tolist` waits for the GPU.
            rows, places = ended.unbind(1)
            paths = tokens[rows, origins[rows, places]].tolist()
            for index, total, path in zip(rows.tolist(), best[rows, places].tolist(), paths, strict=True):
                if not finished[index]:
                    hypotheses[sentences[index]].append(
                        Hypothesis(path, normalized(total, position + 1, settings.length_penalty), total)
                    )
        for index, (sentence, limit) in enumerate(zip(sentences, at_limit, strict=True)):
            finished[index] = finished[index] or limit or len(hypotheses[sentence]) >= enough
        if all(finished):
            break
        # The best candidates that continue fill the beam. If there are too few (a tiny vocabulary), ended ones fill it
        # too: they can never win.
        totals, order = (
            values[:, :beam] for values in best.masked_fill(ends, -torch.inf).sort(dim=1, descending=True, stable=True)
        )
        origins, ids = origins.gather(1, order), ids.gather(1, order)
        if (remaining := unfinished(finished, device)) is not None:
            tokens, totals, origins, ids = (values[remaining] for values in (tokens, totals, origins, ids))
            sentences = [sentence for sentence, done in zip(sentences, finished, strict=True) if not done]
            finished = [False] * len(sentences)
        tokens = torch.cat([tokens.take_along_dim(origins[..., None], dim=1), ids[..., None]], dim=2)
        state = state.select(origins, remaining)
    return [sorted(ended, key=lambda hypothesis: -hypothesis.score)[:beam] for ended in hypotheses]


def generate(
    step: Step,
    state: State,
    bos_ids: Ids,
    eos: int,
    max_lengths: list[int],
    settings: SearchSettings,
    choose: Callable[[Tensor, Tensor, int], Tensor],
    restrict: Restrictions,
) -> list[list[Hypothesis]]:
    """Greedy search and sampling: one hypothesis per sentence, extended by the id that `choose(log_probs, sentences,
    position)` returns."""
    ids, count, device = bos_ids, len(bos_ids), bos_ids.device
    hypotheses: list[list[Hypothesis]] = [[] for _ in max_lengths]
    limits, sentences = torch.tensor(max_lengths, device=device), torch.arange(count, device=device)
    numbers = list(range(count))  # the same as `sentences`
    totals = torch.zeros(count, dtype=torch.float32, device=device)
    tokens = torch.full((count, max(max_lengths) + 1), eos, device=device)
    for position in range(max(max_lengths) + 1):
        log_probs, state = step(ids, state)
        restrict(log_probs, tokens[sentences, :position], sentences)
        # At its limit a hypothesis must end.
        ids = choose(log_probs, sentences, position).masked_fill(limits[sentences] == position, eos)
        totals = totals + log_probs.gather(1, ids[:, None]).squeeze(1)
        tokens[sentences, position] = ids
        if len(rows := (ids == eos).nonzero().flatten()):
            # All at once, because each `tolist` waits for the GPU.
            paths = tokens[sentences[rows], :position].tolist()
            for row, total, path in zip(rows.tolist(), totals[rows].tolist(), paths, strict=True):
                if not hypotheses[numbers[row]]:
                    hypotheses[numbers[row]].append(
                        Hypothesis(path, normalized(total, position + 1, settings.length_penalty), total)
                    )
        finished = [bool(hypotheses[sentence]) for sentence in numbers]
        if all(finished):
            break
        if (remaining := unfinished(finished, device)) is not None:
            sentences, ids, totals = sentences[remaining], ids[remaining], totals[remaining]
            numbers = [number for number, done in zip(numbers, finished, strict=True) if not done]
            state = state.select(None, remaining)
    return hypotheses


def most_probable(log_probs: Float[Tensor, "rows vocabulary"], sentences: Tensor, position: int) -> Tensor:
    """Greedy search."""
    return largest(log_probs)


def sample(
    log_probs: Float[Tensor, "rows vocabulary"], draws: Float[Tensor, " rows"], settings: SearchSettings
) -> Int[Tensor, " rows"]:
    """Draws one id per row from softmax(log_probs / temperature), limited to the `top_k` most probable ids and to the
    smallest set of them whose probabilities sum to `top_p` (Holtzman et al. 2020)."""
    ordered, ids = (log_probs / settings.temperature).sort(dim=-1, descending=True)
    if settings.top_k:
        ordered[:, settings.top_k :] = -torch.inf
    shares = ordered.softmax(dim=-1)
    # An id stays if the sum of those before it is less than top_p: the first always stays.
    shares = shares.masked_fill(shares.cumsum(dim=-1) - shares >= settings.top_p, 0.0)
    sums = shares.cumsum(dim=-1)
    # By rounding the draw may be at or beyond the last sum: an id without a share is never chosen.
    chosen = torch.searchsorted(sums, draws[:, None] * sums[:, -1:], right=True).squeeze(1)
    chosen = chosen.minimum((shares > 0).sum(dim=-1) - 1)
    return ids.gather(1, chosen[:, None]).squeeze(1)


def search(
    step: Step,
    state: State,
    bos_ids: Ids,
    eos: int,
    max_lengths: list[int],
    line_numbers: list[int],
    settings: SearchSettings,
    prefix: Sequence[int] = (),
    carried: Carried | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first: `beam` of them from beam search, one from the other methods.

    `bos_ids` holds the first id of each sentence. Each hypothesis begins with the ids of `prefix`, which is not longer
    than any of `max_lengths`, and has the placeholders that are `carried` over. The draws for a sentence depend on the
    seed and on its number in `line_numbers`, not on its batch. (Rounding depends on the batch, and may decide if a draw
    is at the border between two ids: in 4 of 400 sentences of Multi30k.)
    """
    restrict = Restrictions(settings, eos, torch.tensor(max_lengths, device=bos_ids.device), prefix, carried)
    if settings.method == "beam":
        return beam_search(step, state, bos_ids, eos, max_lengths, settings, restrict)
    if settings.method == "greedy":
        return generate(step, state, bos_ids, eos, max_lengths, settings, most_probable, restrict)
    # Uniform random numbers for every position of each sentence, independent of torch's default type.
    generators = [torch.Generator().manual_seed((settings.seed * 1_000_003 + line) % 2**63) for line in line_numbers]
    draw_row = partial(torch.rand, max(max_lengths) + 1, dtype=torch.float32, device="cpu")
    draws = torch.stack([draw_row(generator=generator) for generator in generators]).to(bos_ids.device)

    def draw(log_probs: Tensor, sentences: Tensor, position: int) -> Tensor:
        return sample(log_probs, draws[sentences, position], settings)

    return generate(step, state, bos_ids, eos, max_lengths, settings, draw, restrict)
