"""Memory that runs out is told with the stage and shape of the batch; what has another cause is told as it is."""

import re
from pathlib import Path

import pytest
import torch
from lightning import LightningModule
from transformer.training.callbacks.out_of_memory import CurrentBatch, explain_out_of_memory

from tests.training.small import trainer_for
from transformer.data.batching import Batch

GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def with_shape(sentences: int, source: int, target: int) -> Batch:
    source_ids, inputs, labels = (
        torch.ones(sentences, length, dtype=torch.int64) for length in (source, target, target)
    )
    return Batch(source_ids, None, inputs, labels, torch.arange(sentences))


# As torch 2.13 for Windows says it.
ON_WINDOWS = RuntimeError("[enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried")

# As torch says it on Apple's GPU.
APPLE = RuntimeError(
    "MPS backend out of memory (MPS allocated: 17.94 GB, other allocations: 1.00 GB, max allowed: 18.13"
)


def of_cpu() -> RuntimeError:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 58)
    return caught.value


@pytest.mark.parametrize("error", [GPU, of_cpu(), ON_WINDOWS, APPLE], ids=["GPU", "CPU", "Windows", "Apple"])
@pytest.mark.parametrize(
    ("stage", "sentences", "more"),
    [
        ("training", "3 sentences", ""),
        ("validation", "1 sentence", r" or validation_search\.beam"),
        ("test", "3 sentences", r" or search\.beam"),
    ],
)
def test_the_batch_without_memory_is_told_by_stage_and_shape(
    tmp_path: Path, error: RuntimeError, stage: str, sentences: str, more: str
) -> None:
    current, trainer, module = CurrentBatch(), trainer_for(tmp_path), LightningModule()
    current.on_train_batch_start(trainer, module, with_shape(8, 9, 10), 0)  # what came before says nothing
    start = {"training": current.on_train_batch_start, "test": current.on_test_batch_start}
    start.get(stage, current.on_validation_batch_start)(trainer, module, with_shape(int(sentences[0]), 5, 7), 0)
    shape = rf"out of memory at a {stage} batch of {sentences} × 5 source × 7 target tokens"
    said = rf"^{shape}: lower data\.batch_tokens \(now 99\){more}, or choose a smaller model$"
    with pytest.raises(ValueError, match=said), explain_out_of_memory(current, 99):
        raise error


@pytest.mark.parametrize(
    ("error", "has_batch"), [(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), True), (GPU, False)]
)
def test_another_error_and_one_before_the_first_batch_stay_as_they_are(
    tmp_path: Path, error: RuntimeError, has_batch: bool
) -> None:
    current = CurrentBatch()
    if has_batch:
        current.on_train_batch_start(trainer_for(tmp_path), LightningModule(), with_shape(3, 5, 7), 0)
    with pytest.raises(type(error), match=re.escape(str(error))), explain_out_of_memory(current, 99):
        raise error
