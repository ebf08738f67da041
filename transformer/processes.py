"""The processes that train or evaluate together. This module imports nothing slow."""

import os
from typing import TypeVar

T = TypeVar("T")


def rank() -> int:
    """The number of this process among those that torchrun, SLURM or Fabric has started together, even before they are
    connected. (If machines are started by hand, only the first process has 0; the other numbers may be wrong.)"""
    texts = {name: os.environ.get(name, "") for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK")}
    numbers = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    of_all = [numbers[name] for name in ("RANK", "SLURM_PROCID") if name in numbers]
    return of_all[0] if of_all else numbers.get("LOCAL_RANK", 0) + numbers.get("NODE_RANK", 0)


def place() -> tuple[int, int]:
    """The number of this process and the number of processes, after they are connected."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def gather(mine: dict[int, T]) -> dict[int, T]:
    """The entries of all processes, in each of them."""
    _, processes = place()
    if processes == 1:
        return mine
    from torch import distributed

    shares: list[dict[int, T]] = [{} for _ in range(processes)]
    distributed.all_gather_object(shares, mine)
    return {key: value for share in shares for key, value in share.items()}
