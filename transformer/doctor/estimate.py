"""What training costs on this machine, measured by some training steps on the corpus in a process of their own."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from transformer.data.augmentation import augmented_training
from transformer.data.batching import Batch
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.device import configure_torch, device_kind, find_hardware
from transformer.doctor.child import in_new_process
from transformer.inference import Translator
from transformer.inference.search import SearchSettings
from transformer.training.callbacks.throughput import peak_memory
from transformer.training.config import RunSettings
from transformer.training.loss import linear_cross_entropy
from transformer.training.train import build_translator

# Experiments by the number of training pairs: each for fewer than this, the last for any number.
PRESETS = {"pairs_2k": 4_500, "pairs_10k": 22_000, "pairs_50k": 100_000, "pairs_200k": None}
WARMUP_STEPS = 2  # not timed: they allocate memory and choose kernels
MAX_BATCHES = 100
MIN_TIMED_STEPS, MIN_SECONDS = 2, 5.0  # timed, at least
REPETITION = 1.5  # tokens of a hypothesis by those of its reference, after little training
MAX_SENTENCES = 100  # translated to time a search, about


def preset_for(pairs: int) -> str:
    """The experiment for a corpus of so many pairs. Between two of them the limit is their sizes' geometric mean."""
    return next(name for name, limit in PRESETS.items() if limit is None or pairs < limit)


@dataclass(frozen=True)
class Training:
    """What training would be: its settings, those of the model and of Lightning's Trainer as plain data, and the
    experiment that they come from, if any."""

    settings: RunSettings
    model: dict[str, Any]
    trainer: dict[str, Any]
    experiment: str | None


@dataclass(frozen=True)
class CostEstimate:
    """Seconds from the start of a process to its first step, per step and per epoch (without validation), for a
    validation, and for the last validation and the test; and the peak of memory while training: of the GPU if there is
    one, else of the process."""

    seconds_to_start: float
    seconds_per_step: float
    steps_per_epoch: int
    seconds_per_epoch: float
    seconds_per_validation: float
    seconds_to_test: float
    peak_bytes: int
    parameters: int
    steps_timed: int
    machine: str


def _size(batch: Batch) -> int:
    return batch.source.numel() + batch.inputs.numel()


def seconds_to_translate(translator: Translator, data: TranslationData, split: str, search: SearchSettings) -> float:
    """How long a search takes for a whole split, by some of its sentences.

    The new model finds no end: its hypotheses are held to the length that a model of little training gives.
    """
    encoded = data.split(split)
    if not len(encoded.source.ids):  # every source is empty, and so is its translation
        return 0.0
    numbers = range(0, len(encoded), max(1, len(encoded) // MAX_SENTENCES))
    sources = [encoded.source[number].tolist() for number in numbers]
    ratio = len(encoded.target.ids) / len(encoded.source.ids)
    started = time.perf_counter()
    translator.n_best_ids(sources, replace(search, length_ratio=REPETITION * ratio, length_extra=1))
    return (time.perf_counter() - started) * len(encoded) / len(sources)


def measure(training: Training, importing: float = 0.0) -> CostEstimate:
    """Times training steps for some seconds (batches built, forward, backward, clipping, the optimizer), and the
    translation of some sentences; `importing` is how long it took until this began."""
    begun = time.perf_counter()
    settings, accelerator = training.settings, str(training.trainer.get("accelerator", "auto"))
    precision = str(training.trainer.get("precision", "32-true"))
    data = TranslationData(settings.data, settings.tokenizer, settings.seed)
    data.choose_bucketing(accelerator, precision)
    machine = configure_torch(settings.machine, accelerator, bucketed=data.is_bucketed)
    machine += f", {find_hardware(accelerator).describe(precision)}"
    device = torch.device(device_kind(accelerator))
    torch.manual_seed(settings.seed)
    data.augmented = augmented_training(data, bpe_dropout=0.0)  # another segmentation changes the time little
    translator = build_translator(settings, training.model, data, None)
    model = translator.model.to(device)
    model.train()
    loader = data.loader("train")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    low_precision = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(precision)
    indices = [index for index, _ in zip(loader.sampler, range(MAX_BATCHES), strict=False)]
    # The largest first: it needs the most memory.
    largest = max(indices, key=lambda index: _size(loader.dataset[index]))
    to_start = importing + time.perf_counter() - begun

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
    while len(seconds) < MIN_TIMED_STEPS or (sum(seconds) < MIN_SECONDS and len(seconds) < MAX_BATCHES):
        seconds.append(step(indices[len(seconds) % len(indices)]))
    mean = sum(seconds) / len(seconds)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else peak_memory()
    validation = sum(
        seconds_to_translate(translator, data, name, settings.validation_search) for name in data.names("validation")
    )
    scored = {name: split for name, (_, split) in data.settings.parts.items() if split != "train"}
    tests = [name for name, split in scored.items() if split != "validation"] if settings.test else []
    return CostEstimate(
        to_start,
        mean,
        len(loader),
        mean * len(loader),
        validation,
        validation + sum(seconds_to_translate(translator, data, name, settings.search) for name in tests),
        peak,
        sum(weight.numel() for weight in model.parameters()),
        len(seconds),
        machine,
    )


def _measure_all(trainings: list[Training], asked: float) -> list[CostEstimate]:
    importing = time.time() - asked
    return [measure(training, importing) for training in trainings]


def estimate(trainings: list[Training]) -> list[CostEstimate]:
    """`measure` each in one new process, so that the peak of memory is that of training alone."""
    return in_new_process(_measure_all, trainings, time.time())
