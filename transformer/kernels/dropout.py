"""The dropout that the whole project uses."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Zeroes a share `p` of the entries while training and scales the rest by 1 / (1 - p).

    On a CPU torch draws one number per entry. Here one 64-bit draw gives the bytes for eight entries, which is several
    times faster: an entry stays if its byte is at least 256 p. Each call rounds 256 p up or down at random, so that the
    share is p on average. At most 255/256 of the entries are zeroed.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return states
        if states.device.type != "cpu" or torch.compiler.is_compiling():
            return functional.dropout(states, self.p)  # torch.compile cannot follow `random_`
        share = min(self.p, 255 / 256)
        least = math.floor(256 * share + torch.rand(()).item()) - 128  # bytes are from -128 to 127
        draws = torch.empty(states.numel() // 8 + 1, dtype=torch.int64).random_(-(2**63), None).view(torch.int8)
        # 1 and 0 in place of the bytes: converting booleans to the type of the states would take longer than the draw.
        kept = draws[: states.numel()].ge_(least).to(states.dtype).view(states.shape)
        return states * kept.mul_(1 / (1 - share))
