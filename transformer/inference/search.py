"""Finding a good target, one token at a time, given only a function that scores the next token.

Nothing here knows of Transformers: `step(ids, state)` takes the newest id of every row (hypothesis) and returns
log-probabilities and the next state; the rows of a sentence are neighbors, and every sentence has equally many.
`state.select(origins, sentences)` keeps `sentences` where some have left, and in each lets its hypotheses go on from
the places `origins` among those before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.inference.top_k import best_continuations

# A sentence that is finished leaves its batch when so large a share of the batch is: leaving costs a copy of the rest.
COMPACT_WHEN_FINISHED = 0.25


@runtime_checkable
class State(Protocol):
    """What a decoder remembers between steps."""

    def select(self, origins: Tensor | None, sentences: Tensor | None = None) -> Any: ...


Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
Ids = Int[Tensor, " sentences"]


@dataclass(frozen=True)
class SearchSettings:
    """How to search. A hypothesis has at least `min_length` tokens and at most the smaller of `max_length` and
    `length_ratio` × source + `length_extra`, the end symbol not counted; `temperature`, `top_k`, `top_p` and `seed` are
    for sampling."""

    method: Literal["greedy", "beam", "sampling"] = "beam"
    beam: Annotated[int, ">= 1"] = 5
    length_penalty: float = 1.0
    min_length: Annotated[int, ">= 0"] = 0
    max_length: Annotated[int, ">= 1"] = 1024
    length_ratio: Annotated[float, ">= 0", "<= 1000"] = 2.0
    length_extra: Annotated[int, ">= 0"] = 20
    temperature: Annotated[float, "> 0"] = 1.0
    top_k: Annotated[int, ">= 0"] = 0
    top_p: Annotated[float, "> 0", "<= 1"] = 1.0
    seed: Annotated[int, ">= 0"] = 1

    def __post_init__(self) -> None:
        if self.min_length > self.max_length:
            raise ValueError(f"search.min_length={self.min_length} is above search.max_length={self.max_length}")

    def limits(self, source_lengths: list[int]) -> list[int]:
        """The most tokens each sentence's hypotheses may have."""
        bounds = [round(self.length_ratio * length) + self.length_extra for length in source_lengths]
        return [max(1, self.min_length, min(self.max_length, bound)) for bound in bounds]


class Hypothesis(NamedTuple):
    """Target ids without begin and end; `score` = `log_probability` / length^length_penalty, the end symbol counted."""

    ids: list[int]
    score: float
    log_probability: float


def search(
    step: Step, state: State, first: Ids, end: int, limits: list[int], indices: list[int], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first: `beam` of them from beam search, one from the other methods.

    `first` holds each sentence's begin symbol, `limits` bound the lengths; `indices` tell the sentences apart, so that
    a sampled one depends on the seed and its own index, not on its batch.
    """
    if settings.method == "beam":
        return beam_search(step, state, first, end, limits, settings)
    if settings.method == "greedy":
        return follow(step, state, first, end, limits, settings, lambda scores, *_: scores.argmax(dim=-1))
    # Numbers between 0 and 1 that belong to one sentence.
    generators = [torch.Generator().manual_seed((settings.seed * 1_000_003 + i) % 2**63) for i in indices]
    draws = torch.stack([torch.rand(max(limits) + 1, generator=own) for own in generators]).to(first.device)

    def draw(scores: Tensor, sentences: Tensor, position: int) -> Tensor:
        return sample(scores, draws[sentences, position], settings)

    return follow(step, state, first, end, limits, settings, draw)


def sample(
    scores: Float[Tensor, "rows vocabulary"], draws: Float[Tensor, " rows"], settings: SearchSettings
) -> Int[Tensor, " rows"]:
    """Draws one id a row from softmax(scores / temperature), cut to the `top_k` most probable ids and to the smallest
    set of them that holds a share of `top_p` (Holtzman et al. 2020)."""
    ordered, ids = (scores / settings.temperature).sort(dim=-1, descending=True)
    if settings.top_k:
        ordered[:, settings.top_k :] = -torch.inf
    shares = ordered.softmax(dim=-1)
    # An id stays while those before it hold less than top_p: the first always stays.
    shares = shares.masked_fill(shares.cumsum(dim=-1) - shares >= settings.top_p, 0.0)
    sums = shares.cumsum(dim=-1)
    # Rounding may leave the draw at or beyond the last sum: never choose an id without a share.
    chosen = torch.searchsorted(sums, draws[:, None] * sums[:, -1:], right=True).squeeze(1)
    chosen = chosen.minimum((shares > 0).sum(dim=-1) - 1)
    return ids.gather(1, chosen[:, None]).squeeze(1)


def follow(
    step: Step,
    state: State,
    first: Ids,
    end: int,
    limits: list[int],
    settings: SearchSettings,
    choose: Callable[[Tensor, Tensor, int], Tensor],
) -> list[list[Hypothesis]]:
    """One hypothesis a sentence: `choose(scores, sentences, position)` picks each next id."""
    ids, count, device = first, len(first), first.device
    found: list[list[Hypothesis]] = [[] for _ in limits]
    bounds, sentences = torch.tensor(limits, device=device), torch.arange(count, device=device)
    totals = torch.zeros(count, device=device)
    tokens = torch.full((count, max(limits) + 1), end, device=device)
    for position in range(max(limits) + 1):
        scores, state = step(ids, state)
        if position < settings.min_length:
            scores[:, end] = -torch.inf
        # At its limit a hypothesis must end.
        ids = choose(scores, sentences, position).masked_fill(bounds[sentences] == position, end)
        totals = totals + scores.gather(1, ids[:, None]).squeeze(1)
        tokens[sentences, position] = ids
        numbers = sentences.tolist()
        for row in (ids == end).nonzero().flatten().tolist():
            if not found[numbers[row]]:
                total, path = totals[row].item(), tokens[numbers[row], :position].tolist()
                found[numbers[row]].append(Hypothesis(path, total / (position + 1) ** settings.length_penalty, total))
        finished = [bool(found[sentence]) for sentence in numbers]
        if all(finished):
            break
        if (alive := _unfinished(finished, device)) is not None:
            sentences, ids, totals = sentences[alive], ids[alive], totals[alive]
            state = state.select(None, alive)
    return found


def _unfinished(finished: list[bool], device: torch.device) -> Tensor | None:
    """The places of the sentences that go on, where it pays to let the others leave."""
    if sum(finished) < COMPACT_WHEN_FINISHED * len(finished):
        return None
    return torch.tensor([place for place, done in enumerate(finished) if not done], device=device)


def beam_search(
    step: Step, state: State, first: Ids, end: int, limits: list[int], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """The `beam` best hypotheses a sentence, best first.

    At every step the `beam` best continuations of a sentence are looked at. One that ends is a hypothesis and its
    place goes to the next best that does not; a sentence is finished when it has `beam` hypotheses (as CTranslate2
    does with patience 1), so an early end does not win by being first under a length penalty. At its limit every
    hypothesis ends.
    """
    beam, device = settings.beam, first.device
    found: list[list[Hypothesis]] = [[] for _ in limits]
    bounds, sentences = torch.tensor(limits, device=device), torch.arange(len(first), device=device)
    ids, totals = first[:, None], torch.zeros(len(first), 1, device=device)
    tokens, finished = torch.empty(len(first), 1, 0, dtype=torch.long, device=device), [False] * len(first)
    for position in range(max(limits) + 1):
        scores, state = step(ids.flatten(), state)
        width, vocabulary = ids.size(1), scores.size(1)  # one row a sentence at first, then `beam`
        if position < settings.min_length:
            scores[:, end] = -torch.inf
        scores, at_limit = scores.view(-1, width, vocabulary), bounds[sentences] == position
        if at_limit.any():
            goes_on = torch.arange(vocabulary, device=device) != end
            scores = scores.masked_fill(at_limit[:, None, None] & goes_on, -torch.inf)
        # Each row has one way to end, so 2 × beam candidates hold at least beam that go on.
        best, origins, ids = best_continuations(scores, totals, min(2 * beam, width * vocabulary))
        ends = ids == end
        numbers = sentences.tolist()
        for row, place in (ends & best.isfinite())[:, :beam].nonzero().tolist():
            hypotheses = found[numbers[row]]
            if not finished[row]:
                total = best[row, place].item()
                path = tokens[row, origins[row, place]].tolist()
                hypotheses.append(Hypothesis(path, total / (position + 1) ** settings.length_penalty, total))
        for row, limit in enumerate(at_limit.tolist()):
            finished[row] = finished[row] or limit or len(found[numbers[row]]) >= beam
        if all(finished):
            break
        # The best continuing candidates take the places of the beam.
        order = ends.long().argsort(dim=1, stable=True)[:, :beam]
        best, origins, ids, ends = (values.gather(1, order) for values in (best, origins, ids, ends))
        # With fewer candidates than places (a tiny vocabulary) an ended one may be left over: it can never win.
        totals = best.masked_fill(ends, -torch.inf)
        if (alive := _unfinished(finished, device)) is not None:
            sentences, tokens, totals, origins, ids = (x[alive] for x in (sentences, tokens, totals, origins, ids))
            finished = [False] * len(alive)
        tokens = torch.cat([tokens.take_along_dim(origins[..., None], dim=1), ids[..., None]], dim=2)
        state = state.select(origins, alive)
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beam] for hypotheses in found]
