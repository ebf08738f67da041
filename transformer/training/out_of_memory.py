"""If memory runs out, the message says in which batch, and which setting makes it smaller."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# What torch says on a CPU ("DefaultCPUAllocator: can't allocate memory", on Windows "…: not enough memory") and on
# Apple's GPU.
OUT_OF_MEMORY = ("DefaultCPUAllocator: ", "MPS backend out of memory")


@contextmanager
def explain_out_of_memory(what: str, remedy: str) -> Iterator[None]:
    """Turns the error of a GPU or CPU without memory into a ValueError that names `what` needed it and the `remedy`."""
    try:
        yield
    except RuntimeError as error:
        # torch has an error class only for NVIDIA's GPUs.
        if not isinstance(error, torch.OutOfMemoryError) and not any(text in str(error) for text in OUT_OF_MEMORY):
            raise
        raise ValueError(f"out of memory at {what}: lower {remedy}, or choose a smaller model") from error
