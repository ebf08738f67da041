"""The device, and how torch uses it: threads, precision, memory, kernels for matrix multiplication and attention."""

import ctypes
import logging
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import torch

from transformer.machine import MachineSettings, MatmulPrecision

log = logging.getLogger(__name__)

# `medium` keeps a compiled kernel for every shape, which takes memory: it is used only if it is faster by this factor.
MIN_SPEEDUP = 1.25
# Between calls of torch, Python runs one thread at a time: more workers than this would wait for each other.
MAX_WORKERS = 8
Item = TypeVar("Item")
Result = TypeVar("Result")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Instructions that multiply matrices of 16-bit numbers: the name in Linux, and the usual name. Without them torch
# emulates these numbers, which is slower than float32.
CPU_INSTRUCTIONS = {
    "bf16": {"amx_bf16": "AMX", "avx512_bf16": "AVX512_BF16", "bf16": "ARM BF16"},
    "fp16": {"amx_fp16": "AMX", "avx512_fp16": "AVX512_FP16", "asimdhp": "ARM FP16"},
}


def half_precision_type(precision: str) -> Literal["bf16", "fp16"] | None:
    """The type of 16-bit numbers in a precision, by our names or Lightning's (bfloat16, bf16-mixed, 16-true); None if
    it has none."""
    return "bf16" if precision.startswith("bf") else "fp16" if re.match("(float)?16", precision) else None


@dataclass(frozen=True)
class Hardware:
    """A kind of device, and its instructions for multiplying 16-bit numbers: {"bf16": "AVX512_BF16"}."""

    device: Literal["cpu", "cuda", "mps"]
    instructions: Mapping[str, str]

    def describe(self, precision: str) -> str:
        """A precision and its reason, for the first lines of a run."""
        kind = half_precision_type(precision)
        if self.device == "mps":
            reason = "this project was not tested on Apple's GPU"
        elif kind is None:
            reason = "" if "bf16" in self.instructions else f"this {self.name} has no bf16 instructions"
        else:
            reason = self.instructions.get(kind, "emulated")
        return f"precision {precision}" + (f" ({reason})" if reason else "")

    def why_slow(self, precision: str) -> str | None:
        """Why a precision is slower than float32 on this device; None if it is not."""
        kind = half_precision_type(precision)
        if kind is None or kind in self.instructions:
            return None
        return f"this {self.name} has no {kind} instructions and emulates them, which is slower than float32"

    @property
    def name(self) -> str:
        return "CPU" if self.device == "cpu" else "GPU"


def fast_instructions(features: Collection[str]) -> dict[str, str]:
    """The 16-bit numbers that a processor with these features multiplies fast, with the instruction for each."""
    available = {
        kind: [name for feature, name in known.items() if feature in features]
        for kind, known in CPU_INSTRUCTIONS.items()
    }
    return {kind: names[0] for kind, names in available.items() if names}


def cpu_features() -> set[str]:
    """The features of this processor, by their names in Linux; on other systems only those that torch knows."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        return set(" ".join(re.findall(r"^(?:flags|Features)\s*:(.*)$", info.read_text(), re.MULTILINE)).split())
    asked = {"amx_bf16": "_is_amx_tile_supported", "avx512_bf16": "_is_avx512_bf16_supported"}
    return {feature for feature, question in asked.items() if getattr(torch.cpu, question, bool)()}


def processor_name(machine: str) -> str:
    """The name of the GPU or CPU of a run, from the line `machine` of `configure_torch`."""
    if machine.startswith("cuda"):
        return torch.cuda.get_device_name()
    known = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)$", known.read_text(), re.MULTILINE) if known.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def device_kind(accelerator: str) -> Literal["cpu", "cuda", "mps"]:
    """The kind of device that Lightning's `accelerator` (auto, cpu, gpu, cuda, mps) means on this machine."""
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return "cuda"
    if accelerator in ("auto", "gpu", "mps") and torch.backends.mps.is_available():
        return "mps"
    return "cpu"


def find_hardware(accelerator: str) -> Hardware:
    """The hardware of this machine."""
    device = device_kind(accelerator)
    if device == "cpu":
        return Hardware(device, fast_instructions(cpu_features()))
    if device == "mps":
        return Hardware(device, {"fp16": "Metal"})
    has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    return Hardware(device, {"fp16": "GPU"} | ({"bf16": "GPU"} if has_bf16 else {}))


def choose_precision(precision: str, accelerator: str) -> str:
    """The precision of training, with Lightning's names. auto becomes bf16-mixed if the hardware multiplies bf16 fast,
    else 32-true. Other values stay; a slow one gives a warning."""
    hardware = find_hardware(accelerator)
    if precision == "auto":
        return "bf16-mixed" if "bf16" in hardware.instructions else "32-true"
    if why := hardware.why_slow(precision):
        log.warning("trainer.precision=%s: %s: trainer.precision=32-true", precision, why)
    return precision


def parse_device(name: str) -> torch.device:
    """cpu, cuda, cuda:1, mps … or auto (a GPU if there is one). Raises ValueError for other names and missing GPUs."""
    if name == "auto":
        name = device_kind("auto")
    if not re.fullmatch(r"cpu|mps|cuda(:(0|[1-9]\d*))?", name):
        raise ValueError(f"device={name} is not allowed; choose one of auto, cpu, cuda, cuda:0, …, mps")
    if device_kind(kind := name.partition(":")[0]) != kind:
        raise ValueError(f"device={name}: this machine has no GPU that torch can use")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise ValueError(f"device={name}: torch can use {count} GPUs of this machine, up to cuda:{count - 1}")
    return device


def parse_precision(name: str, hardware: Hardware) -> torch.dtype:
    """The dtype of float32, bfloat16, float16 or auto (bfloat16 if the hardware multiplies it fast, else float32).

    A slow one gives a warning. Raises ValueError for other names.
    """
    if name != "auto" and name not in PRECISIONS:
        raise ValueError(f"precision={name} is not allowed; choose one of auto, {', '.join(PRECISIONS)}")
    if name == "auto":
        name = "bfloat16" if "bf16" in hardware.instructions else "float32"
    if why := hardware.why_slow(name):
        log.warning("precision=%s: %s: precision=float32", name, why)
    return PRECISIONS[name]


def available_cores() -> int:
    """The cores that this process may use, by its affinity and the limits of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # The limit of a container: microseconds of computing (or "max"), and the period in microseconds.
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.is_file():
        share, period = quota.read_text().split()
        cores = cores if share == "max" else min(cores, max(1, math.ceil(int(share) / int(period))))
    return cores


def available_threads() -> int:
    """torch's own number of threads (with MKL, one for each physical core) or OMP_NUM_THREADS, but at most the
    available cores."""
    return min(available_cores(), torch.get_num_threads())


def available_memory() -> float:
    """The free bytes of the CPU's memory, by the system and the limits of a container; infinite if not known."""
    known, share = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
    free = re.findall(r"^MemAvailable:\s+(\d+) kB", known.read_text(), re.MULTILINE) if known.is_file() else []
    limits = [1024 * int(kilobytes) for kilobytes in free]
    if (share / "memory.max").is_file() and (limit := (share / "memory.max").read_text().strip()).isdecimal():
        # Cached files count as used memory, but the system frees it if it is needed.
        cached = re.findall(r"^inactive_file (\d+)", (share / "memory.stat").read_text(), re.MULTILINE)
        used = int((share / "memory.current").read_text()) - sum(map(int, cached))
        limits.append(max(0, int(limit) - used))
    return float(min(limits, default=math.inf))


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raises ValueError if `what` needs more bytes than are free: the system might kill the process without a
    message."""
    if needed > (available := available_memory()):
        raise ValueError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory, and {available / 1e9:,.1f} GB are free: {remedy}"
        )


def _seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    started = time.perf_counter()
    left @ right
    return time.perf_counter() - started


@cache
def fastest_matmul_precision() -> tuple[MatmulPrecision, str]:
    """Chooses medium if it is faster on this processor and still has float32's precision, else highest; also returns
    the reason.

    With medium, torch multiplies with oneDNN instead of MKL: on some processors twice as fast in the same precision, on
    others in bfloat16, which is seen by its error. It is timed once per process, so all trials of a sweep use the same.
    """
    generator = torch.Generator().manual_seed(1)
    # The size of a batch in a small model.
    left, right = torch.randn(2048, 256, generator=generator), torch.randn(256, 1024, generator=generator)
    exact = left.double() @ right.double()
    errors, seconds = {}, {"highest": math.inf, "medium": math.inf}
    before = torch.get_float32_matmul_precision()
    # In turns, so that other work of the machine slows both down.
    for _ in range(8):
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
    return "medium", f"{faster:.1f} times as fast here"


def compiles_kernel_per_shape(accelerator: str, precision: str) -> bool:
    """Whether every new shape of a matrix multiplication takes time for making a kernel, as with oneDNN for 16-bit
    numbers on a CPU. `precision` has Lightning's name."""
    return device_kind(accelerator) == "cpu" and precision.startswith(("bf16", "16"))


def keep_freed_memory() -> None:
    """Lets the C library of Linux (glibc) keep freed memory for its next use; on other systems this does nothing.

    By default it returns large blocks to the system and gets them back page by page. This takes 8 % of a beam search,
    which makes new logits in every step.
    """
    trim_threshold, mmap_max = -1, -4  # mallopt's numbers of these settings
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(trim_threshold, 2**31 - 1)
            mallopt(mmap_max, 0)


def configure_torch(
    settings: MachineSettings,
    accelerator: str,
    dtype: torch.dtype = torch.float32,
    is_packed: bool = False,
    bucketed: bool = False,
) -> str:
    """Configures torch for this process; returns a line about the choices.

    They are for the device of `accelerator` (see `device_kind`) and for weights of `dtype`. With packed weights
    (`inference.packing`) this process keeps freed memory, and the matmul precision matters only for attention: it uses
    MKL, because oneDNN would make a new kernel for each length. With `bucketed` all kernels are kept for later batches.
    """
    device = device_kind(accelerator)
    threads, max_threads = settings.threads or available_threads(), max(64, 4 * (os.cpu_count() or 1))
    if threads > max_threads:
        raise ValueError(f"machine.threads={threads}: at most {max_threads} threads can share the processors here")
    torch.set_num_threads(threads)
    # The number of the last shapes for which oneDNN keeps a kernel; a kernel may take a megabyte or more.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "1024" if bucketed else "64")
    precision, reason = settings.matmul_precision, "as set"
    if precision is None and dtype != torch.float32:
        precision, reason = "highest", "no float32 is multiplied"
    elif precision is None and is_packed:
        precision, reason = "highest", "the weights are packed"
    elif precision is None:
        choices: dict[str, tuple[MatmulPrecision, str]] = {"cuda": ("high", "TF32"), "mps": ("highest", "float32")}
        precision, reason = choices[device] if device in choices else fastest_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    if is_packed:
        keep_freed_memory()
    # On a CPU, for the lengths of sentences, the backward pass of torch's fused kernel takes twice as long as plain
    # matrix multiplications.
    attention = settings.attention or ("math" if device == "cpu" else "fused")
    torch.backends.cuda.enable_flash_sdp(attention == "fused")
    torch.backends.cuda.enable_mem_efficient_sdp(attention == "fused")
    # cuDNN plans a kernel for every new shape, which takes a quarter of a second; most batches of the first epoch have
    # a new shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
    several = "s" if threads != 1 else ""
    return f"{device}: {threads} thread{several}, matmul precision {precision} ({reason}), attention {attention}"


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """A context without mixed precision and, on a GPU, without TF32 and cuDNN's attention, so that results do not
    depend on the settings of the caller.

    (With TF32, 8 of 1,000 translations of Multi30k differ from those of a CPU, and it is not faster: docs/speed.md.
    cuDNN would plan a kernel for every new length, that is, in each step of a search.)
    On a GPU only one thread may use it at a time, because these settings are for the whole process.
    """
    on_gpu, before = device.type == "cuda", None
    cudnn_attention: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    with suppress(RuntimeError):  # raised if torch.backends.….fp32_precision is in use: then this cannot be read or set
        before = torch.get_float32_matmul_precision() if on_gpu else None
    if before is not None:
        torch.set_float32_matmul_precision("highest")
    if on_gpu:
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if on_gpu:
            torch.backends.cuda.enable_cudnn_sdp(cudnn_attention)
        if before is not None:
            torch.set_float32_matmul_precision(before)


def worker_count(items: int) -> int:
    """How many of `items` are processed by `parallel_map` at once."""
    return min(torch.get_num_threads(), items, MAX_WORKERS)


def parallel_map(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """`function` of each item, in order: several items at once, each with its share of torch's threads.

    A second thread does not speed up a small matrix multiplication much; two batches at once use two threads well.
    """
    threads, workers = torch.get_num_threads(), worker_count(len(items))
    if workers < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a thread that starts later uses the last number that was set
