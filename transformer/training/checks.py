"""Checks before a run begins: of machine, model and corpus, and of the settings that a resumed run changes."""

from dataclasses import replace
from typing import Any

import torch

from transformer.config import FIXED, PATH, UsageError, flatten, marked, shown
from transformer.data.batching import limited
from transformer.data.datamodule import TranslationData
from transformer.device import available_threads, check_memory, choose_precision, device_kind
from transformer.machine import MachineSettings
from transformer.model.config import ModelConfig
from transformer.model.transformer import Transformer
from transformer.training.config import RunSettings, TrainerSettings

# Corpora are compared by their bytes, not by their paths.
FIXED_CORPORA = ("digests.train", "digests.validation", "digests.synthetic")


def check_trainer(trainer: TrainerSettings) -> TrainerSettings:
    """The settings for this machine: with a precision in place of auto, and a number of devices in place of -1 (all).

    Raises ValueError for a device, a number of devices or a precision that this machine does not have.
    """
    kind = device_kind(trainer.accelerator)
    if trainer.accelerator not in ("auto", kind) and not (trainer.accelerator == "gpu" and kind != "cpu"):
        raise ValueError(
            f"trainer.accelerator={trainer.accelerator}: torch sees no GPU here: give trainer=cpu, or install a build "
            "of torch for this machine's GPU"
        )
    most = {"cpu": max(8, 4 * available_threads()), "mps": 1}.get(kind, torch.cuda.device_count())
    if trainer.devices > most or (trainer.devices == -1 and kind == "cpu"):
        raise ValueError(f"trainer.devices={trainer.devices}: this machine has devices for 1 to {most} processes")
    devices = most if trainer.devices == -1 else trainer.devices
    strategy = "ddp" if devices * trainer.num_nodes > 1 else trainer.strategy
    precision = choose_precision(trainer.precision, trainer.accelerator)
    if precision == "16-mixed" and kind == "cpu":
        raise ValueError("trainer.precision=16-mixed needs a GPU: give trainer.precision=32-true or bf16-mixed")
    return replace(trainer, precision=precision, devices=devices, strategy=strategy)  # type: ignore[arg-type]


def check_size(config: ModelConfig) -> None:
    """Raises ValueError for a model that is too large for this machine, before it is built."""
    with torch.device("meta"):
        model = Transformer(config)
    tensors = [*model.parameters(), *model.buffers()]
    remedy = "lower model.dim, model.feed_forward.dim, model.layers, model.max_length or tokenizer.vocabulary_size"
    check_memory(sum(tensor.numel() * tensor.element_size() for tensor in tensors), "the model", remedy)


def check_limits(data: TranslationData, trainer: TrainerSettings, processes: int = 1) -> None:
    """Raises ValueError for a share of the batches (trainer.limit_train_batches=0.01) that is less than one batch, and
    if not all steps would have the same number of batches."""
    accumulated = trainer.accumulate_grad_batches
    train = len(data.sampler("train", 0, processes, accumulated))
    counts = {"train": [train]} | {
        part: [len(data.sampler(name)) for name in names]
        for part, names in {"val": data.names("validation"), "test": data.test_names}.items()
    }
    for part, batches in counts.items():
        limit = getattr(trainer, f"limit_{part}_batches")
        if limit > 0 and any(limited(count, limit) < 1 for count in batches):
            raise ValueError(
                f"trainer.limit_{part}_batches={limit} of {min(batches)} batches is less than one: give a number of "
                f"batches, as trainer.limit_{part}_batches=1"
            )
    if (left := limited(train, trainer.limit_train_batches)) % accumulated:
        raise ValueError(
            f"trainer.limit_train_batches={trainer.limit_train_batches} leaves {left} batches an epoch, which is no "
            f"multiple of trainer.accumulate_grad_batches={accumulated}"
        )


def check_enough_sentences(data: TranslationData, processes: int) -> None:
    """Raises ValueError if a split has fewer sentences than there are processes."""
    for name in data.settings.all_splits:
        if (count := len(data.examples(name))) < processes:
            raise ValueError(
                f"data: the {count} sentences of {name} cannot be distributed to {processes} processes: give "
                f"trainer.devices={count} or less, or more sentences"
            )


def check_lengths(data: TranslationData, config: ModelConfig) -> None:
    """Raises ValueError if a sentence is longer than the model's positions."""
    for name in data.all_splits:
        longest = data.examples(name).longest + 1
        if longest > config.max_length:
            raise ValueError(
                f"model.max_length={config.max_length} is less than the longest sentence of {name} needs ({longest} "
                f"tokens with its end): raise it to {longest}, or lower data.max_length to {config.max_length - 1}"
            )


def numerics(accelerator: str) -> dict[str, Any]:
    """Everything that affects the last bits of a sum. A run may continue with others, but its weights then differ."""
    return {
        "device": device_kind(accelerator),
        "torch": torch.__version__.split("+")[0],
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def restore_numerics(machine: MachineSettings, accelerator: str, saved: dict[str, Any] | None) -> MachineSettings:
    """Uses the matmul precision that was chosen by timing when the run began, because a new timing could choose
    another; not if one is set, or on another kind of device."""
    if saved is None or machine.matmul_precision is not None:
        return machine
    before = saved["settings"]["numerics"]
    if before["device"] != device_kind(accelerator):
        return machine
    return replace(machine, matmul_precision=before["matmul_precision"])


def check_resumption(saved: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Compares the `settings` with those of a checkpoint; returns a line for each setting and each test set that has
    changed. Raises UsageError if the run cannot continue with them."""
    steps, max_steps = saved["progress"]["step"], settings["trainer"]["max_steps"]
    if max_steps is not None and 0 <= max_steps < steps:
        raise UsageError(
            f"trainer.max_steps={max_steps}: the run has done {steps:,} steps already; give more, or leave it"
        )
    fixed, paths = ("model", *marked(RunSettings, FIXED)), tuple(marked(RunSettings, PATH))
    before, after = dict(flatten(saved["settings"])), dict(flatten(settings))
    # A group that is null (an attention that the model does not have) is one key.
    changed = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    lines = {key: f"{key}={shown(after.get(key))} (was {shown(before.get(key))})" for key in changed}

    def within(key: str, *groups: str) -> bool:
        return any(key == group or key.startswith(f"{group}.") for group in groups)

    if refused := [lines[key] for key in changed if within(key, *fixed)]:
        raise UsageError(f"a resumed run cannot change {', '.join(refused)}: leave that out, or start a new run")
    if corpora := [key.removeprefix("digests.") for key in changed if within(key, *FIXED_CORPORA)]:
        raise UsageError(
            f"the files of {' and '.join(corpora)} are not those that the run was trained on: give the same files, or "
            "start a new run"
        )
    tests = [f"the files of {key.removeprefix('digests.')}" for key in changed if within(key, "digests")]
    return [lines[key] for key in changed if not within(key, *paths, "digests")] + tests
