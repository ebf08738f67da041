"""What training costs on this machine, measured by some training steps on the corpus in a process of their own."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from transformer.data.batching import Batch
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.data.training_split import build_training_split
from transformer.device import device_kind
from transformer.doctor.child import in_new_process
from transformer.inference import Translator
from transformer.inference.search import SearchSettings
from transformer.model import Transformer
from transformer.training.callbacks.throughput import peak_memory
from transformer.training.callbacks.train_progress import limited
from transformer.training.checks import check_limits
from transformer.training.config import RunSettings
from transformer.training.loss import linear_cross_entropy
from transformer.training.train import build_translator, use_machine

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


class TrainingStep:
    """A plain step: batch built, forward, backward, clipping, AdamW; without R-Drop, guided alignment and averaging,
    which take more time."""

    def __init__(self, model: Transformer, data: TranslationData, precision: str, device: torch.device) -> None:
        self.model, self.loader, self.device = model, data.loader("train"), device
        self.low_precision = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(precision)
        self.optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def seconds(self, index: Any) -> float:
        """How long it takes on the batch of this index."""
        started = time.perf_counter()
        batch = self.loader.dataset[index]
        source, inputs, labels = (part.to(self.device) for part in (batch.source, batch.inputs, batch.labels))
        visible = None if batch.source_visible is None else batch.source_visible.to(self.device)
        with torch.autocast(self.device.type, self.low_precision) if self.low_precision else nullcontext():
            states = self.model.decode_hidden(inputs, self.model.encode(source, visible))
            total = linear_cross_entropy(states, self.model.output.weight, labels, 0.1, ignore_index=PAD)
            loss = total / (labels != PAD).sum()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        loss.item()  # waits for a GPU
        return time.perf_counter() - started


def _seconds_of_steps(step: TrainingStep) -> list[float]:
    """The times of enough steps to know their mean."""
    indices = [index for index, _ in zip(step.loader.sampler, range(MAX_BATCHES), strict=False)]
    # The largest first: it needs the most memory.
    for index in [max(indices, key=lambda index: _size(step.loader.dataset[index])), *indices[:WARMUP_STEPS]]:
        step.seconds(index)
    seconds: list[float] = []
    while len(seconds) < MIN_TIMED_STEPS or (sum(seconds) < MIN_SECONDS and len(seconds) < MAX_BATCHES):
        seconds.append(step.seconds(indices[len(seconds) % len(indices)]))
    return seconds


def measure(training: Training, importing: float = 0.0) -> CostEstimate:
    """Times training steps for some seconds, and the translation of some sentences; `importing` is how long it took
    until this began."""
    begun = time.perf_counter()
    settings, trainer = training.settings, training.trainer
    data = TranslationData(settings.data, settings.tokenizer, settings.seed)
    accelerator, precision = str(trainer.get("accelerator") or "auto"), str(trainer.get("precision") or "32-true")
    machine = use_machine(settings.machine, accelerator, precision, data, saved=None)
    device = torch.device(device_kind(accelerator))
    torch.manual_seed(settings.seed)
    data.training_split = build_training_split(data, bpe_dropout=0.0)  # another segmentation changes the time little
    translator = build_translator(settings, training.model, data, None)
    model = translator.model.to(device)
    model.train()
    step = TrainingStep(model, data, precision, device)
    to_start = importing + time.perf_counter() - begun
    seconds = _seconds_of_steps(step)
    mean = sum(seconds) / len(seconds)
    accumulated = int(trainer.get("accumulate_grad_batches") or 1)  # a step of training takes so many batches
    check_limits(data, trainer)
    batches = limited(len(data.sampler("train", 0, 1, accumulated)), trainer.get("limit_train_batches"))
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else peak_memory()
    validation = sum(
        seconds_to_translate(translator, data, name, settings.validation_search) for name in data.names("validation")
    )
    scored = {name: split for name, (_, split) in data.settings.all_splits.items() if split != "train"}
    tests = [name for name, split in scored.items() if split != "validation"] if settings.test else []
    return CostEstimate(
        seconds_to_start=to_start,
        seconds_per_step=mean * accumulated,
        steps_per_epoch=batches // accumulated,
        seconds_per_epoch=mean * batches,
        seconds_per_validation=validation,
        seconds_to_test=validation
        + sum(seconds_to_translate(translator, data, name, settings.search) for name in tests),
        peak_bytes=peak,
        parameters=sum(weight.numel() for weight in model.parameters()),
        steps_timed=len(seconds),
        machine=machine,
    )


def _measure_all(trainings: list[Training], asked: float) -> list[CostEstimate]:
    importing = time.time() - asked
    return [measure(training, importing) for training in trainings]


def estimate(trainings: list[Training]) -> list[CostEstimate]:
    """`measure` each in one new process, so that the peak of memory is that of training alone."""
    return in_new_process(_measure_all, trainings, time.time())
