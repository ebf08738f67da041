"""What training costs here: some real steps of the real model on this corpus, in a process of their own."""

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
from transformer.device import MachineSettings, configure_torch
from transformer.model import ModelConfig, Transformer
from transformer.training.callbacks.throughput import peak_memory
from transformer.training.loss import linear_cross_entropy

# Experiments by the number of training pairs: each for fewer than so many, the last for any number.
PRESETS = {"pairs_2k": 4_500, "pairs_10k": 22_000, "pairs_50k": 100_000, "pairs_200k": None}
# Steps that allocate memory and choose kernels; batches to choose from; and how long steps are timed.
WARM_UP, BATCHES, SECONDS, MIN_COUNT = 2, 100, 5.0, 5


def preset_for(pairs: int) -> str:
    """The experiment that suits a corpus of so many pairs: sizes between two are divided at their geometric mean."""
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
    """Seconds a step and an epoch (validation not counted), and the most memory held: the GPU's where there is one,
    else the process's."""

    seconds_per_step: float
    steps_per_epoch: int
    seconds_per_epoch: float
    peak_bytes: int
    parameters: int
    steps_timed: int
    machine: str


def estimate(plan: Plan) -> CostEstimate:
    """Measured in a new process, whose memory is a run's and not the examination's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, plan).result()


def measure(plan: Plan) -> CostEstimate:
    """Times training steps for some seconds: batches built, forward, backward, clipping, the optimizer."""
    machine = configure_torch(plan.machine, plan.accelerator)
    device = torch.device("cuda" if plan.accelerator != "cpu" and torch.cuda.is_available() else "cpu")
    torch.manual_seed(plan.seed)
    loader = TranslationData(plan.data, plan.tokenizer, plan.seed).loader("train")
    model = Transformer(plan.model).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    half = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(plan.precision)
    indices = [index for index, _ in zip(loader.sampler, range(BATCHES), strict=False)]
    # The largest first: it needs the most memory.
    largest = max(indices, key=lambda index: _size(loader.dataset[index]))

    def step(index: Any) -> float:
        started = time.perf_counter()
        batch = loader.dataset[index]
        source, inputs, labels = (part.to(device) for part in (batch.source, batch.inputs, batch.labels))
        source_visible = None if batch.source_visible is None else batch.source_visible.to(device)
        with torch.autocast(device.type, half) if half else nullcontext():
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

    for index in [largest, *indices[:WARM_UP]]:
        step(index)
    seconds: list[float] = []
    while len(seconds) < MIN_COUNT or (sum(seconds) < SECONDS and len(seconds) < BATCHES):
        seconds.append(step(indices[len(seconds) % len(indices)]))
    mean = sum(seconds) / len(seconds)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else peak_memory()
    parameters = sum(weight.numel() for weight in model.parameters())
    return CostEstimate(mean, len(loader), mean * len(loader), peak, parameters, len(seconds), machine)


def _size(batch: Batch) -> int:
    return batch.source.numel() + batch.inputs.numel()
