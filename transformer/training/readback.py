"""How the host reads what a device has computed without waiting for it."""

from typing import Generic, TypeVar

import torch
from torch import Tensor

About = TypeVar("About")


class Readback(Generic[About]):
    """Numbers that are computed at every step, as the host reads them: on a CPU those of this step, on a GPU those of
    the step before, as the host would wait for this one's."""

    def __init__(self) -> None:
        self._waiting: tuple[Tensor, torch.cuda.Event, About] | None = None

    def exchange(self, numbers: Tensor, about: About) -> tuple[list[float], About] | None:
        """Hands over the numbers of a step and what they are about; returns those that can be read now."""
        if numbers.device.type != "cuda":
            return numbers.tolist(), about
        before, event = self.flush(), torch.cuda.Event()
        copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True).copy_(numbers, non_blocking=True)
        event.record()
        self._waiting = copy, event, about
        return before

    def flush(self) -> tuple[list[float], About] | None:
        """The numbers that nobody has read yet."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        numbers, event, about = waiting
        event.synchronize()
        return numbers.tolist(), about
