"""Measures training: time per step, target tokens a second and memory."""

import re
import statistics
import sys
import time
from array import array
from pathlib import Path

import torch
from torch import Tensor


def peak_memory(status: Path = Path("/proc/self/status")) -> int:
    """The most memory that this process has used so far, in bytes."""
    # Linux's getrusage would also count the parent process until its exec. In a sandbox the line may be missing.
    if status.exists() and (peak := re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)):
        return int(peak[1]) * 1024
    if sys.platform == "win32":
        return 0  # not known without another library
    import resource  # Windows has none

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Throughput:
    """Measures a run: the median time of a step (with loading and logging, but without validation and checkpoints), the
    target tokens a second, and the peak of memory."""

    # The first steps are not counted: they allocate memory, choose kernels, or compile for each kind of batch. A run
    # with no other steps counts its last one.
    WARMUP_STEPS, COMPILED_WARMUP_STEPS = 6, 30

    def __init__(self, is_compiled: bool = False) -> None:
        self.warmup_steps = self.COMPILED_WARMUP_STEPS if is_compiled else self.WARMUP_STEPS
        self.step_seconds = array("d")
        # One entry for each step of the warm-up, then one for all others. As tensors, so as not to wait for a GPU.
        self.step_tokens: list[Tensor] = []
        self.last: float | None = None
        self.training_seconds = 0.0

    def start(self) -> None:
        """Begins to time a step; what came before does not count."""
        self.last = time.perf_counter()

    def after_step(self, tokens: Tensor) -> None:
        """A step has ended, and the next one begins; `tokens` are the target tokens of all processes."""
        now = time.perf_counter()
        if self.last is None:
            self.last = now
        self.step_seconds.append(now - self.last)
        self.training_seconds += now - self.last
        self.last = now
        if len(self.step_tokens) <= self.warmup_steps:
            self.step_tokens.append(tokens)
        else:
            self.step_tokens[-1] = self.step_tokens[-1] + tokens

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second, over all steps so far. Waits for a GPU."""
        return float(sum(self.step_tokens)) / max(self.training_seconds, 1e-9)

    def measured(self, device: torch.device) -> dict[str, float]:
        """Milliseconds a step and target tokens a second, if a step was trained, and peak memory in MB: the GPU's if
        there is one, else the process's."""
        skipped = min(self.warmup_steps, len(self.step_seconds) - 1)
        seconds, tokens = self.step_seconds[skipped:], self.step_tokens[skipped:]
        memory = torch.cuda.max_memory_allocated() if device.type == "cuda" else peak_memory()
        measured = {"peak MB": float(round(memory / 1e6))}
        if seconds:
            measured["ms/step"] = round(1000 * statistics.median(seconds), 1)
            measured["tokens/s"] = float(round(float(sum(tokens)) / sum(seconds)))
        return measured
