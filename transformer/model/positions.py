"""Position encodings: without one, a Transformer does not see the order of its tokens.

A position encoding acts in one of three places: it is added to the embeddings (sinusoidal, learned), it rotates queries
and keys (rotary), or it is added to the scores (alibi). To add one: a class here, derived from the class of its place,
and its name in POSITIONS of `config.py`.
"""

from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer.model.config import POSITIONS


class EmbeddingPositions(nn.Module):
    """Added to the embeddings: built with (dim, max_length), called with (states, offset of the first position)."""


class QueryKeyPositions(nn.Module):
    """Applied to queries and keys of self-attention: built with (head_dim, max_length), called with (vectors,
    offset)."""


class ScorePositions(nn.Module):
    """Added to the scores of self-attention: built with (heads), called with the distances between queries and keys."""


PLACES = (EmbeddingPositions, QueryKeyPositions, ScorePositions)
Place = TypeVar("Place", EmbeddingPositions, QueryKeyPositions, ScorePositions)


def build_positions(place: type[Place], name: str, *arguments: int) -> Place | None:
    """The position encoding of this name; None if it acts in another place. Raises TypeError if it acts in none."""
    positions = POSITIONS[name]
    if not issubclass(positions, PLACES):
        raise TypeError(f"{positions.__name__} acts nowhere: derive it from {', '.join(p.__name__ for p in PLACES)}")
    return positions(*arguments) if issubclass(positions, place) else None


def frequencies(dim: int) -> Float[Tensor, " half"]:
    """10000^(-2i/dim) for i = 0 … dim/2 - 1: from one radian a position down to about 1/10000."""
    return 10000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def sinusoidal_table(length: int, dim: int) -> Float[Tensor, "length dim"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(the same) (Vaswani et al. 2017, section 3.5)."""
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies(dim))
    # Interleaved: the sine and cosine of one frequency are neighbors.
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class Sinusoidal(EmbeddingPositions):
    """Adds the fixed table of sines and cosines."""

    table: Tensor

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()
        # Computed, not learned: it need not be in a checkpoint.
        self.register_buffer("table", sinusoidal_table(max_length, dim), persistent=False)

    def forward(self, states: Float[Tensor, "batch length dim"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        return states + self.table[offset : offset + states.size(1)]


class Learned(EmbeddingPositions):
    """Adds one trained vector per position, as BERT does."""

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_length, dim) * dim**-0.5)

    def forward(self, states: Float[Tensor, "batch length dim"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        return states + self.table[offset : offset + states.size(1)]


class NoPositions(EmbeddingPositions):
    """Adds nothing to the embeddings."""

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()

    def forward(self, states: Float[Tensor, "batch length dim"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        return states


class Rotary(QueryKeyPositions):
    """Rotates each pair of a query's or key's entries by an angle that grows with the position (Su et al. 2021).

    The dot product of a rotated query and a rotated key depends on their distance and on which of them comes first.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(self, head_dim: int, max_length: int) -> None:
        super().__init__()
        table = sinusoidal_table(max_length, head_dim)
        self.register_buffer("sine", table[:, 0::2], persistent=False)
        self.register_buffer("cosine", table[:, 1::2], persistent=False)

    def forward(
        self, vectors: Float[Tensor, "batch heads length head_dim"], offset: int = 0
    ) -> Float[Tensor, "batch heads length head_dim"]:
        end = offset + vectors.size(2)
        cosine, sine = self.cosine[offset:end].to(vectors.dtype), self.sine[offset:end].to(vectors.dtype)
        even, odd = vectors[..., 0::2], vectors[..., 1::2]
        return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)


class ALiBi(ScorePositions):
    """Lowers the score of a key in proportion to its distance from the query: attention with linear biases (Press et
    al. 2022). Head h of n does so with the slope 2^(-8h/n), h = 1 … n.

    The paper describes a decoder. In an encoder there are keys before and after a query, and an equal distance gives
    the same bias on both sides: so only the decoder's self-attention sees the order of two neighbors.
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=torch.float32) / heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def forward(self, distances: Int[Tensor, "batch 1 queries keys"]) -> Float[Tensor, "batch heads queries keys"]:
        """The bias of every score; `distances` are the positions of the queries minus those of the keys."""
        return -self.slopes * distances.abs()
