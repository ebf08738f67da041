"""Finding a good target, one token at a time, given only a function that scores the next token.

Nothing here knows of Transformers: `step(ids, state)` takes the newest id of every row and returns log-probabilities
and the next state; `state.select(rows, sentences)` keeps rows (hypotheses), and sentences where some are finished.
The rows of a sentence are always neighbours, and every sentence has equally many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a decoder remembers between steps."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Any: ...


Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
Ids = Int[Tensor, " sentences"]


@dataclass(frozen=True)
class SearchSettings:
    """How to search. A hypothesis has at least `min_length` tokens and at most the smaller of `max_length` and
    `length_ratio` × source + `length_extra`, the end symbol not counted; `temperature`, `top_k`, `top_p` and `seed` are
    for sampling."""

    method: Literal["greedy", "beam", "sampling"]
    beam: Annotated[int, ">= 1"]
    length_penalty: float
    min_length: Annotated[int, ">= 0"]
    max_length: Annotated[int, ">= 1"]
    length_ratio: Annotated[float, ">= 0", "<= 1000"]
    length_extra: Annotated[int, ">= 0"]
    temperature: Annotated[float, "> 0"]
    top_k: Annotated[int, ">= 0"]
    top_p: Annotated[float, "> 0", "<= 1"]
    seed: Annotated[int, ">= 0"]

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
    draws = torch.stack([_uniform(settings.seed, index, max(limits) + 1) for index in indices]).to(first.device)

    def draw(scores: Tensor, sentences: Tensor, position: int) -> Tensor:
        return sample(scores, draws[sentences, position], settings)

    return follow(step, state, first, end, limits, settings, draw)


def _uniform(seed: int, index: int, count: int) -> Float[Tensor, " count"]:
    """Numbers between 0 and 1 that belong to one sentence."""
    return torch.rand(count, generator=torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63))


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
    """One hypothesis a sentence: `choose(scores, sentences, position)` picks each next id. Finished ones leave."""
    ids, count, device = first, len(first), first.device
    found: list[list[Hypothesis]] = [[] for _ in limits]
    bounds, sentences = torch.tensor(limits, device=device), torch.arange(count, device=device)
    totals = torch.zeros(count, device=device)
    tokens = torch.empty(count, 0, dtype=torch.long, device=device)
    for position in range(max(limits) + 1):
        scores, state = step(ids, state)
        if position < settings.min_length:
            scores[:, end] = -torch.inf
        # At its limit a hypothesis must end.
        ids = choose(scores, sentences, position).masked_fill(bounds[sentences] == position, end)
        totals = totals + scores.gather(1, ids[:, None]).squeeze(1)
        tokens = torch.cat([tokens, ids[:, None]], dim=1)
        done = ids == end
        for row in done.nonzero().flatten().tolist():
            total = totals[row].item()
            score = total / (position + 1) ** settings.length_penalty
            found[int(sentences[row])].append(Hypothesis(tokens[row, :-1].tolist(), score, total))
        if done.any():
            alive = (~done).nonzero().flatten()
            if not len(alive):
                break
            sentences, ids, tokens, totals = sentences[alive], ids[alive], tokens[alive], totals[alive]
            state = state.select(alive, alive)
    return found


def beam_search(
    step: Step, state: State, first: Ids, end: int, limits: list[int], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """The `beam` best hypotheses a sentence, best first.

    At every step the `beam` best continuations of a sentence are looked at. One that ends is a hypothesis and its
    place goes to the next best that does not; a sentence is finished when it has `beam` hypotheses (as CTranslate2
    does with patience 1), so an early end does not win by being first under a length penalty. At its limit every
    hypothesis ends.
    """
    beam, count, device = settings.beam, len(first), first.device
    found: list[list[Hypothesis]] = [[] for _ in limits]
    bounds, sentences = torch.tensor(limits, device=device), torch.arange(count, device=device)
    ids, totals = first[:, None], torch.zeros(count, 1, device=device)
    tokens = torch.empty(count, 1, 0, dtype=torch.long, device=device)
    for position in range(max(limits) + 1):
        scores, state = step(ids.flatten(), state)
        count, width = ids.shape  # one row a sentence at first, then `beam`
        vocabulary = scores.size(-1)
        if position < settings.min_length:
            scores[:, end] = -torch.inf
        at_limit = bounds[sentences] == position
        if at_limit.any():
            goes_on = torch.arange(vocabulary, device=device) != end
            scores = scores.view(count, width, vocabulary).masked_fill(at_limit[:, None, None] & goes_on, -torch.inf)
        sums = totals[..., None] + scores.view(count, width, vocabulary)
        # Each row has one way to end, so 2 × beam candidates hold at least beam that go on.
        candidates = min(2 * beam, width * vocabulary)
        best, places = sums.flatten(1).topk(candidates)
        origins, ids = places // vocabulary, places % vocabulary
        ends = ids == end
        finishing = ends & (torch.arange(candidates, device=device) < beam) & best.isfinite()
        for row, place in finishing.nonzero().tolist():
            hypotheses = found[int(sentences[row])]
            if len(hypotheses) < beam:
                total = best[row, place].item()
                path = tokens[row, origins[row, place]].tolist()
                hypotheses.append(Hypothesis(path, total / (position + 1) ** settings.length_penalty, total))
        unfinished = torch.tensor([len(found[i]) < beam for i in sentences.tolist()], device=device) & ~at_limit
        alive = unfinished.nonzero().flatten()
        if not len(alive):
            break
        # The best continuing candidates take the places of the beam.
        order = ends.long().argsort(dim=1, stable=True)[alive, :beam]
        best, origins, ids, ends = (values[alive].gather(1, order) for values in (best, origins, ids, ends))
        # With fewer candidates than places (a tiny vocabulary) an ended one may be left over: it can never win.
        totals = best.masked_fill(ends, -torch.inf)
        tokens = tokens[alive].gather(1, origins[..., None].expand(-1, -1, position))
        tokens = torch.cat([tokens, ids[..., None]], dim=2)
        rows = alive[:, None] * width + origins
        state = state.select(rows.flatten(), alive if len(alive) < count else None)
        sentences = sentences[alive]
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in found]
