"""Memory that runs out is reported with the batch that was being processed and the setting that makes it smaller."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from transformer.data.batching import Batch

# What torch says on a CPU ("DefaultCPUAllocator: can't allocate memory", on Windows "…: not enough memory") and on
# Apple's GPU.
OUT_OF_MEMORY = ("DefaultCPUAllocator: ", "MPS backend out of memory")


class CurrentBatch(Callback):
    """The batch that is being processed, and in which stage of the run."""

    def __init__(self) -> None:
        self.stage = ""
        self.batch: Batch | None = None

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_index: int) -> None:
        self.stage, self.batch = "training", batch

    def on_validation_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, *index: int) -> None:
        self.stage, self.batch = "validation", batch

    def on_test_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, *index: int) -> None:
        self.stage, self.batch = "test", batch


@contextmanager
def explain_out_of_memory(current: CurrentBatch, batch_tokens: int) -> Iterator[None]:
    """Turns the error of a GPU or CPU without memory into a ValueError that says what to change."""
    try:
        yield
    except RuntimeError as error:
        # torch has a type of its own for NVIDIA's GPUs only.
        out_of_memory = isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)
        if not out_of_memory or current.batch is None:
            raise
        count, source = current.batch.source.shape
        sentences = f"{count} sentence{'s' if count != 1 else ''}"
        beams = {"validation": " or validation_search.beam", "test": " or search.beam"}.get(current.stage, "")
        raise ValueError(
            f"out of memory at a {current.stage} batch of {sentences} × {source} source × "
            f"{current.batch.labels.shape[1]} target tokens: lower data.batch_tokens (now {batch_tokens}){beams}, or "
            "choose a smaller model"
        ) from error
