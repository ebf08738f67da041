"""Checks that a run makes before any work: of the Trainer's arguments, of the model's size, of the corpus' lengths."""

import json
import re
import typing
from types import NoneType
from typing import Any, Literal

import torch
from lightning import Trainer
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint

from transformer.data.datamodule import TranslationData
from transformer.data.printable import one_line
from transformer.device import available_threads, check_memory, choose_precision, device_kind
from transformer.model import ModelConfig, Transformer
from transformer.training.callbacks.train_progress import limited
from transformer.training.loggers import silence_lightning
from transformer.training.trainer_arguments import TRAINER_DEFAULTS, check_names_and_values, check_trainer_arguments


def _types(hint: Any) -> set[Any]:
    return {typing.get_origin(one) or one for one in typing.get_args(hint) or (hint,)}


def whole_numbers(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with counts that were typed as 1e3 or 2.0 as integers, before anything counts by them. A limit of
    1.0 is all batches, as it is a share; above that it is a number of them, to Lightning too."""
    hints = typing.get_type_hints(Trainer.__init__)

    def is_count(name: str, value: Any) -> bool:
        if type(value) is not float or not value.is_integer():
            return False
        types = _types(hints.get(name))
        return int in types and (float not in types or (name.startswith("limit_") and value > 1))

    return {name: int(value) if is_count(name, value) else value for name, value in arguments.items()}


def _check_types(arguments: dict[str, Any]) -> None:
    """Raises ValueError for a value of another type than the Trainer's own hint says, which it may take all the same
    and fail hours later; Lightning itself looks at texts that stand for something."""
    hints = typing.get_type_hints(Trainer.__init__)
    for name, value in arguments.items():
        plain = _types(hints[name])
        if Literal in plain or (value is None and NoneType in plain) or type(value) in plain:
            continue
        if type(value) is int and float in plain:
            continue
        if type(value) is float and value.is_integer() and int in plain:  # see whole_numbers
            continue
        names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
        expected = [text for kind, text in names.items() if kind in plain and not (kind is int and float in plain)]
        typed = value if isinstance(value, str) else json.dumps(value)
        raise ValueError(f"trainer.{name}={typed} must be {' or '.join(expected)}")


def check_trainer_values(arguments: dict[str, Any]) -> None:
    """Raises ValueError for an argument of the Trainer that no run could have, on any machine."""
    check_names_and_values(arguments)
    _check_types(arguments)


def check_trainer(arguments: dict[str, Any]) -> None:
    """Raises ValueError for what Lightning's Trainer does not take, by making one, and for what cannot work here."""
    silence_lightning()
    check_trainer_arguments(arguments)
    _check_types(arguments)
    processes, most = arguments.get("devices", 1), max(8, 4 * available_threads())
    accelerator = str(arguments.get("accelerator", "auto"))
    is_cpu = accelerator in ("auto", "cpu") and device_kind(accelerator) == "cpu"
    if is_cpu and re.fullmatch(r"\d+", str(processes)) and int(processes) > most:
        raise ValueError(f"trainer.devices={processes}: at most {most} processes can share the processors here")
    try:
        Trainer(**(TRAINER_DEFAULTS | arguments), logger=False, callbacks=[ModelCheckpoint()])
    except (MisconfigurationException, ImportError, RuntimeError, TypeError, ValueError) as error:
        message = one_line(error)
        meant = [value for value in arguments.values() if isinstance(value, str) and value in message]
        named = [f"trainer.{name}={value}" for name, value in arguments.items() if value in meant and value != "auto"]
        if "No supported gpu backend" in message:
            message = "torch sees no GPU here: give trainer=cpu, or install a build of torch for this machine's GPU"
        raise ValueError(f"{' '.join(named) or 'trainer'}: {message}") from error


def check_size(config: ModelConfig) -> None:
    """Raises ValueError for a model that is too large for this machine, before memory is taken for it."""
    with torch.device("meta"):
        model = Transformer(config)
    tensors = [*model.parameters(), *model.buffers()]
    remedy = "lower model.dim, model.feed_forward.dim, model.layers, model.max_length or tokenizer.vocabulary_size"
    check_memory(sum(tensor.numel() * tensor.element_size() for tensor in tensors), "the model", remedy)


def check_average(averaging: str, trainer: dict[str, Any]) -> None:
    """Raises ValueError for an average of weights (of this kind) that nothing validates."""
    if trainer.get("limit_val_batches") == 0 and averaging != "none":
        raise ValueError(
            f"training.averaging.kind={averaging} needs a validation, which says whether the average is better: leave "
            "out trainer.limit_val_batches=0"
        )


def checked_trainer(arguments: dict[str, Any], averaging: str) -> dict[str, Any]:
    """The Trainer's arguments as a run takes them: with a precision, and counts as integers.

    Raises ValueError for those that no run here can have, or none with this kind of average.
    """
    arguments = whole_numbers(choose_precision(arguments))
    check_trainer(arguments)
    check_average(averaging, arguments)
    return arguments


def check_limits(data: TranslationData, trainer: dict[str, Any], processes: int = 1) -> None:
    """Raises ValueError for a share of the batches (trainer.limit_train_batches=0.01) that is less than one batch, and
    for steps of unequal numbers of batches."""
    accumulated = int(trainer.get("accumulate_grad_batches", 1))
    parts = {"train": ["train"], "val": data.names("validation"), "test": data.test_names}
    for part, names in parts.items():
        share = trainer.get(f"limit_{part}_batches", 1)
        if not isinstance(share, float) or not 0 < share < 1:
            continue
        for name in names:
            if limited(count := len(data.sampler(name, 0, processes, accumulated)), share) < 1:
                raise ValueError(
                    f"trainer.limit_{part}_batches={share} of the {count} batches of {name} is less than one: give "
                    f"a number of batches, as trainer.limit_{part}_batches=1"
                )
    limit = trainer.get("limit_train_batches")
    if (batches := limited(len(data.sampler("train", 0, processes, accumulated)), limit)) % accumulated:
        raise ValueError(
            f"trainer.limit_train_batches={limit} leaves {batches} batches an epoch, which is no multiple of "
            f"trainer.accumulate_grad_batches={accumulated}"
        )


def check_enough_sentences(data: TranslationData, processes: int) -> None:
    """Raises ValueError where a split has no sentence for one of the processes."""
    for name in data.settings.all_splits:
        if (count := len(data.examples(name))) < processes:
            raise ValueError(
                f"data: the {count} sentences of {name} cannot be distributed to {processes} processes: give "
                f"trainer.devices={count} or less, or more sentences"
            )


def check_lengths(data: TranslationData, config: ModelConfig) -> None:
    """Raises ValueError when a sentence that is kept is longer than the model's positions."""
    for name in data.all_splits:
        longest = data.examples(name).longest + 1
        if longest > config.max_length:
            raise ValueError(
                f"model.max_length={config.max_length} is less than the longest sentence of {name} needs ({longest} "
                f"tokens with its end): raise it to {longest}, or lower data.max_length to {config.max_length - 1}"
            )
