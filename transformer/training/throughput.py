"""What training costs: time per step, target tokens a second and memory."""

import re
import statistics
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer
from torch import Tensor


def peak_memory(status: Path = Path("/proc/self/status")) -> int:
    """The most memory that this process has held so far, in bytes."""
    # Linux's getrusage would count the parent process too, up to its exec. A sandbox may have no such line.
    if status.exists() and (peak := re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)):
        return int(peak[1]) * 1024
    if sys.platform == "win32":
        return 0  # not known without a further library
    import resource  # Windows has none

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Throughput(Callback):
    """Measures a run: the median time of a step, with loading and logging but without validation and checkpoints after
    it, how many target tokens a second that makes, and the peak of memory."""

    # The first steps allocate memory and choose kernels; those of a compiled model compile for each kind of batch. A
    # run with no others counts its last one.
    warmup_steps, compiled_warmup_steps = 6, 30

    def __init__(self) -> None:
        self.step_seconds = array("d")
        # Of each step of the warm-up, then of all others together. On a GPU tensors: numbers would wait for it.
        self.step_tokens: list[Tensor | int] = []
        self.last: tuple[float, Tensor | int] | None = None

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        if module.settings.compile:
            self.warmup_steps = self.compiled_warmup_steps
        self.last = time.perf_counter(), module.tokens_seen

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        if (batch_index + 1) % trainer.accumulate_grad_batches:
            return
        now, tokens = time.perf_counter(), module.tokens_seen
        if self.last is not None:
            self.step_seconds.append(now - self.last[0])
            if len(self.step_tokens) <= self.warmup_steps:
                self.step_tokens.append(tokens - self.last[1])
            else:
                self.step_tokens[-1] = self.step_tokens[-1] + tokens - self.last[1]
        self.last = now, tokens

    def on_validation_end(self, trainer: Trainer, module: Any) -> None:
        self.last = None

    def measured(self, trainer: Trainer) -> dict[str, float]:
        """Milliseconds a step and target tokens a second, if a step was trained, and peak memory in MB: the GPU's where
        there is one, else the process's."""
        skipped = min(self.warmup_steps, len(self.step_seconds) - 1)
        seconds, tokens = self.step_seconds[skipped:], self.step_tokens[skipped:]
        on_gpu = trainer.strategy.root_device.type == "cuda"
        memory = torch.cuda.max_memory_allocated() if on_gpu else peak_memory()
        measured = {"peak MB": float(round(memory / 1e6))}
        if seconds:
            measured["ms/step"] = round(1000 * statistics.median(seconds), 1)
            measured["tokens/s"] = float(round(int(sum(tokens)) / sum(seconds)))
        return measured
