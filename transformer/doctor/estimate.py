"""What training costs on this machine, measured by some training steps on the corpus in a process of their own."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from transformer.data.batching import Batch
from transformer.data.corpus import DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD, TokenizerSettings
from transformer.device import MachineSettings, configure_torch, device_kind, find_hardware
from transformer.model import ModelConfig, Transformer
from transformer.training.callbacks.throughput import peak_memory
from transformer.training.loss import linear_cross_entropy

# Experiments by the number of training pairs: each for fewer than this, the last for any number.
PRESETS = {"pairs_2k": 4_500, "pairs_10k": 22_000, "pairs_50k": 100_000, "pairs_200k": None}
WARMUP_STEPS = 2  # not timed: they allocate memory and choose kernels
MAX_BATCHES = 100
MIN_STEPS, MIN_SECONDS = 5, 5.0  # timed, at least


def preset_for(pairs: int) -> str:
    """The experiment for a corpus of so many pairs. Between two of them the limit is their sizes' geometric mean."""
    return next(name for name, limit in PRESETS.items() if limit is None or pairs < limit)


@dataclass(frozen=True)
class Plan:
    """What would be trained, and on what."""

    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelConfig
    machine: MachineSettings
    accelerator: str
    precision: str
    seed: int


@dataclass(frozen=True)
class CostEstimate:
    """Seconds per step and per epoch (without validation), and the peak of memory: of the GPU if there is one, else of
    the process."""

    seconds_per_step: float
    steps_per_epoch: int
    seconds_per_epoch: float
    peak_bytes: int
    parameters: int
    steps_timed: int
    machine: str


def _size(batch: Batch) -> int:
    return batch.source.numel() + batch.inputs.numel()


def measure(plan: Plan) -> CostEstimate:
    """Times training steps for some seconds: batches built, forward, backward, clipping, the optimizer."""
    machine = configure_torch(plan.machine, plan.accelerator)
    machine += f", {find_hardware(plan.accelerator).describe(plan.precision)}"
    device = torch.device(device_kind(plan.accelerator))
    torch.manual_seed(plan.seed)
    loader = TranslationData(plan.data, plan.tokenizer, plan.seed).loader("train")
    model = Transformer(plan.model).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    low_precision = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(plan.precision)
    indices = [index for index, _ in zip(loader.sampler, range(MAX_BATCHES), strict=False)]
    # The largest first: it needs the most memory.
    largest = max(indices, key=lambda index: _size(loader.dataset[index]))

    def step(index: Any) -> float:
        started = time.perf_counter()
        batch = loader.dataset[index]
        source, inputs, labels = (part.to(device) for part in (batch.source, batch.inputs, batch.labels))
        source_visible = None if batch.source_visible is None else batch.source_visible.to(device)
        with torch.autocast(device.type, low_precision) if low_precision else nullcontext():
            states = model.decode_hidden(inputs, model.encode(source, source_visible))
            loss = (
                linear_cross_entropy(states, model.output.weight, labels, 0.1, ignore_index=PAD) / (labels != PAD).sum()
            )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()  # waits for a GPU
        return time.perf_counter() - started

    for index in [largest, *indices[:WARMUP_STEPS]]:
        step(index)
    seconds: list[float] = []
    while len(seconds) < MIN_STEPS or (sum(seconds) < MIN_SECONDS and len(seconds) < MAX_BATCHES):
        seconds.append(step(indices[len(seconds) % len(indices)]))
    mean = sum(seconds) / len(seconds)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else peak_memory()
    parameters = sum(weight.numel() for weight in model.parameters())
    return CostEstimate(mean, len(loader), mean * len(loader), peak, parameters, len(seconds), machine)


def estimate(plan: Plan) -> CostEstimate:
    """`measure` in a new process, so that its peak of memory is that of training alone."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, plan).result()
