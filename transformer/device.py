"""The device, and how torch uses it: threads, precision, kernels for matrix multiplication and attention."""

import math
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import torch

MatmulPrecision = Literal["highest", "high", "medium"]
# medium keeps a kernel for every shape that it has met: only for so many times the speed is that worth the memory.
MIN_SPEEDUP = 1.25
# Between calls of torch, Python runs one thread at a time: more workers than these would wait for each other.
MAX_WORKERS = 8
Item = TypeVar("Item")
Result = TypeVar("Result")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class MachineSettings:
    """How torch uses the machine; None lets `configure_torch` choose. configs/machine/auto.yaml explains each."""

    threads: Annotated[int, ">= 1"] | None
    matmul_precision: MatmulPrecision | None
    attention: Literal["math", "fused"] | None


@dataclass(frozen=True)
class ServingSettings:
    """Where to translate, in which precision, and how many tokens at a time."""

    device: str
    precision: str
    batch_tokens: Annotated[int, ">= 1"]


def parse_device(name: str) -> torch.device:
    """cpu, cuda, cuda:1 … or auto (a GPU if there is one). Raises ValueError for other names and missing GPUs."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(f"device={name} is not allowed; choose one of auto, cpu, cuda, cuda:0, …")
    if name != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"device={name}: this machine has no GPU that torch can use")
    return torch.device(name)


def parse_precision(name: str) -> torch.dtype:
    """The dtype of float32, bfloat16 or float16. Raises ValueError, naming these, for others."""
    if name not in PRECISIONS:
        raise ValueError(f"precision={name} is not allowed; choose one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def available_threads() -> int:
    """The cores that this process may use: by OMP_NUM_THREADS, its affinity and its share of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # A container's share: microseconds of computing in a period of so many, or "max".
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.is_file():
        share, period = quota.read_text().split()
        cores = cores if share == "max" else min(cores, max(1, math.ceil(int(share) / int(period))))
    return min(cores, torch.get_num_threads())


def _seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    started = time.perf_counter()
    left @ right
    return time.perf_counter() - started


def fastest_matmul_precision() -> tuple[MatmulPrecision, str]:
    """medium, where it is faster on this processor and still has float32's precision; else highest. And why.

    With medium, torch multiplies by oneDNN instead of MKL: on some processors twice as fast with the same precision, on
    others in bfloat16, which its error shows.
    """
    generator = torch.Generator().manual_seed(1)
    # As many tokens, and as wide, as a batch has in a small model.
    left, right = torch.randn(2048, 256, generator=generator), torch.randn(256, 1024, generator=generator)
    exact = left.double() @ right.double()
    errors, seconds = {}, {"highest": math.inf, "medium": math.inf}
    before = torch.get_float32_matmul_precision()
    # In turns, so that whatever else the machine is doing slows both.
    for _ in range(20):
        for precision in seconds:
            torch.set_float32_matmul_precision(precision)
            seconds[precision] = min(seconds[precision], _seconds(left, right))
            if precision not in errors:
                errors[precision] = ((left @ right - exact).norm() / exact.norm()).item()
    torch.set_float32_matmul_precision(before)
    if errors["medium"] > 1e-5:
        return "highest", "medium is not float32 here"
    faster = seconds["highest"] / seconds["medium"]
    if faster < MIN_SPEEDUP:
        return "highest", "medium is not much faster here"
    return "medium", f"{faster:.1f} times as fast here, error {errors['medium']:.0e}"


def configure_torch(settings: MachineSettings, accelerator: str) -> str:
    """Configures torch for this process; returns a line about the choices.

    They are for the CPU if `accelerator` is "cpu" or there is no GPU, else for the GPU.
    """
    device = "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"
    threads = settings.threads or available_threads()
    torch.set_num_threads(threads)
    # oneDNN keeps a kernel for each of the last so many shapes, by default 1,024 of a megabyte or more each.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    precision, reason = settings.matmul_precision, "as set"
    if precision is None:
        precision, reason = fastest_matmul_precision() if device == "cpu" else ("high", "TF32")
    torch.set_float32_matmul_precision(precision)
    # On a CPU, at the lengths of sentences, the backward of torch's fused kernel takes twice as long as plain
    # matrix multiplications.
    attention = settings.attention or ("math" if device == "cpu" else "fused")
    torch.backends.cuda.enable_flash_sdp(attention == "fused")
    torch.backends.cuda.enable_mem_efficient_sdp(attention == "fused")
    torch.backends.cuda.enable_cudnn_sdp(attention == "fused")
    return f"{device}: {threads} threads, matmul precision {precision} ({reason}), attention {attention}"


def parallel_map(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """`function` of each item, in order: several items at once, each with its share of torch's threads.

    A second thread speeds up a small matrix multiplication little; two batches at once use two threads nearly in full.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items), MAX_WORKERS)
    if workers < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a thread that starts later takes the number that was set last
