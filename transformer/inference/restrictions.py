"""Ids that a search must not choose next: each rule sets the probability of forbidden ids to 0."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.inference.settings import SearchSettings

LogProbs = Float[Tensor, "rows vocabulary"]
Tokens = Int[Tensor, "rows position"]


def begin(log_probs: LogProbs, position: int, prefix: Sequence[int]) -> None:
    """Forbids all ids except the next one of a prefix."""
    log_prob = log_probs[:, prefix[position]].clone()
    log_probs.fill_(-torch.inf)[:, prefix[position]] = log_prob


def block_repeats(log_probs: LogProbs, tokens: Tokens, n: int, never: Sequence[int]) -> None:
    """Forbids each id that would repeat a sequence of n ids in the tokens of its row; ids in `never` stay allowed."""
    if tokens.size(1) < n:
        return
    sequences, newest = tokens.unfold(1, n, 1), tokens[:, tokens.size(1) - n + 1 :]
    is_repeat = (sequences[..., :-1] == newest[:, None]).all(dim=2)
    is_repeat &= ~torch.isin(sequences[..., -1], torch.tensor(never, device=tokens.device))
    rows, places = is_repeat.nonzero(as_tuple=True)
    log_probs[rows, sequences[rows, places, -1]] = -torch.inf


class Carried(NamedTuple):
    """Placeholders: every hypothesis of a sentence must have each of these ids exactly `counts` times."""

    ids: Int[Tensor, " kinds"]
    counts: Int[Tensor, "sentences kinds"]

    def restrict(
        self,
        log_probs: LogProbs,
        tokens: Tokens,
        sentences: Int[Tensor, " rows"],
        limits: Int[Tensor, " rows"],
        eos: int,
    ) -> None:
        """Forbids ids that are already there often enough; the end while some are missing; and all other ids when the
        missing ones need all remaining places."""
        missing = self.counts[sentences] - (tokens[..., None] == self.ids).sum(dim=1)
        lacking = missing.sum(dim=1)
        log_probs[:, self.ids] = log_probs[:, self.ids].masked_fill(missing <= 0, -torch.inf)
        log_probs[:, eos] = log_probs[:, eos].masked_fill(lacking > 0, -torch.inf)
        is_last_chance = (lacking > 0) & (lacking >= limits - tokens.size(1))
        if is_last_chance.any():
            others = torch.ones(log_probs.size(1), dtype=torch.bool, device=log_probs.device)
            others[self.ids] = False
            log_probs.masked_fill_(is_last_chance[:, None] & others, -torch.inf)


class Restrictions:
    """The rules of one search: its smallest length, its beginning (`prefix`), sequences that must not come twice, and
    placeholders that are `carried` over from the source."""

    def __init__(
        self,
        settings: SearchSettings,
        eos: int,
        max_lengths: Int[Tensor, " sentences"],
        prefix: Sequence[int] = (),
        carried: Carried | None = None,
    ) -> None:
        self.settings, self.eos, self.max_lengths = settings, eos, max_lengths
        self.prefix, self.carried = prefix, carried
        # A row that has ended may still be in the batch. EOS is never blocked, so that every row has an allowed id.
        self.never_blocked = [eos, *(carried.ids.tolist() if carried else [])]

    def __call__(self, log_probs: LogProbs, tokens: Tokens, sentences: Sequence[int] | Tensor) -> None:
        """`tokens` are the ids so far of each row, `sentences` the numbers of the sentences in the batch: the rows of a
        sentence are neighbors."""
        position = tokens.size(1)
        if position < len(self.prefix):
            begin(log_probs, position, self.prefix)
            return
        if position < self.settings.min_length:
            log_probs[:, self.eos] = -torch.inf
        if self.settings.no_repeat:
            block_repeats(log_probs, tokens, self.settings.no_repeat, self.never_blocked)
        if self.carried:
            indices = torch.as_tensor(sentences, device=tokens.device)
            of_rows = indices.repeat_interleave(len(log_probs) // len(indices))
            self.carried.restrict(log_probs, tokens, of_rows, self.max_lengths[of_rows], self.eos)
