"""How a Transformer, which by itself sees a bag of tokens, learns where each one stands."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoidal_table(length: int, dim: int) -> Float[Tensor, "length dim"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(the same) (Vaswani et al. 2017, section 3.5)."""
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies(dim))
    # Interleaved: sine and cosine of one frequency are neighbors.
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def frequencies(dim: int) -> Float[Tensor, " half"]:
    """10000^(-2i/dim) for i = 0 … dim/2 - 1: from one radian a position down to about 1/10000."""
    return 10000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)


class Sinusoidal(nn.Module):
    """Adds the fixed table of sines and cosines."""

    table: Tensor

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()
        # Computed, not learned: it need not be in a checkpoint.
        self.register_buffer("table", sinusoidal_table(max_length, dim), persistent=False)

    def forward(self, states: Float[Tensor, "batch length dim"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        return states + self.table[offset : offset + states.size(1)]


class Learned(nn.Module):
    """Adds one trained vector a position (as BERT does)."""

    def __init__(self, dim: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_length, dim) * dim**-0.5)

    def forward(self, states: Float[Tensor, "batch length dim"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        return states + self.table[offset : offset + states.size(1)]


class NoPositions(nn.Module):
    """Adds nothing: no positions at all, or rotary ones, which act inside the attention."""

    def forward(self, states: Float[Tensor, "batch length dim"], offset: int = 0) -> Float[Tensor, "batch length dim"]:
        return states


class Rotary(nn.Module):
    """Turns each pair of a query's or key's entries by an angle that grows with the position (Su et al. 2021).

    The product of a turned query and a turned key depends on how far apart they stand *and* on which comes first.
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
