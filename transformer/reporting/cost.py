"""What a run costs: time per step and memory."""

import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer


class Cost(Callback):
    """Measures a run: the median time of a step (loading, validation and checkpoints aside) and the peak of memory."""

    def __init__(self) -> None:
        self.batch_seconds: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
        self.started = time.perf_counter()

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        self.batch_seconds.append(time.perf_counter() - self.started)

    def measured(self, trainer: Trainer) -> dict[str, float]:
        """Milliseconds a step (all batches that one update accumulates), and peak memory in MB.

        The memory is the GPU's where training runs on one, else the process's.
        """
        # A GPU works on after the call has returned, but it cannot fall behind for long: medians hold for it too.
        step = statistics.median(self.batch_seconds) * trainer.accumulate_grad_batches if self.batch_seconds else 0.0
        on_gpu = trainer.strategy.root_device.type == "cuda"
        memory = torch.cuda.max_memory_allocated() if on_gpu else peak_memory()
        return {"ms/step": round(1000 * step, 1), "peak MB": round(memory / 1e6)}


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux's getrusage would count the parent process too, up to its exec.
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
