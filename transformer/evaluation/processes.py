"""The processes that train or evaluate together, if there are several."""

from typing import TypeVar

import torch

T = TypeVar("T")


def process_place() -> tuple[int, int]:
    """The number of this process and how many there are."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def gather(mine: dict[int, T]) -> dict[int, T]:
    """The entries of all processes, in each of them."""
    _, processes = process_place()
    if processes == 1:
        return mine
    shares: list[dict[int, T]] = [{} for _ in range(processes)]
    torch.distributed.all_gather_object(shares, mine)
    return {key: value for share in shares for key, value in share.items()}
