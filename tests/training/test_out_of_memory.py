"""An out-of-memory error names the work that needed the memory; another error is not changed."""

import re

import pytest
import torch

from transformer.training.out_of_memory import explain_out_of_memory

GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
# The message of torch 2.13 for Windows.
ON_WINDOWS = RuntimeError("[enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried")

# The message of torch on Apple's GPU.
APPLE = RuntimeError(
    "MPS backend out of memory (MPS allocated: 17.94 GB, other allocations: 1.00 GB, max allowed: 18.13"
)


def of_cpu() -> RuntimeError:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 58)
    return caught.value


@pytest.mark.parametrize("error", [GPU, of_cpu(), ON_WINDOWS, APPLE], ids=["GPU", "CPU", "Windows", "Apple"])
def test_a_memory_error_names_the_work_and_the_setting_to_lower(error: RuntimeError) -> None:
    said = "out of memory at a batch: lower data.batch_tokens, or choose a smaller model"
    with pytest.raises(ValueError, match=re.escape(said)), explain_out_of_memory("a batch", "data.batch_tokens"):
        raise error


def test_another_error_is_not_changed() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="mat1 and mat2"), explain_out_of_memory("a batch", "data.batch_tokens"):
        raise error
