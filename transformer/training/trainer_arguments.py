"""What may be given to Lightning's Trainer as `trainer.NAME=VALUE`, as far as this can be told without importing
Lightning and torch, which takes seconds."""

import ast
import re
from contextlib import suppress
from datetime import timedelta
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# With 0 for one of these, nothing would be trained or nothing scored.
NOT_ZERO = ("max_steps", "max_epochs", "limit_train_batches", "limit_test_batches", "accumulate_grad_batches")
# Arguments of which -1 means all, or no limit.
UNLIMITED, MAX_NUMBER = ("max_steps", "max_epochs", "devices", "num_sanity_val_steps"), 10**12
# What Lightning's Trainer is given unless `trainer=` says otherwise. Without check_val_every_n_epoch, validation comes
# after so many steps, wherever epochs end. Without max_epochs=-1, max_steps=-1 would mean 1,000 epochs.
TRAINER_DEFAULTS: dict[str, Any] = {
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "check_val_every_n_epoch": None,
    "max_epochs": -1,
}
RESERVED_TRAINER_ARGS = {
    "callbacks": "built by train.py: see the settings of training",
    "logger": "built by train.py: choose with loggers=[csv,tensorboard]",
    "plugins": "built by train.py",
    "default_root_dir": "the run's folder: choose it with hydra.run.dir=PATH",
    "val_check_interval": "not possible, as it counts batches: use training.validate_every, which counts steps",
    "check_val_every_n_epoch": "not possible, as validation is counted in steps: use training.validate_every",
    "fast_dev_run": "not possible, as it saves no checkpoints: use trainer.max_steps=5",
    "overfit_batches": "not possible with batches of our own: use trainer.limit_train_batches",
    "use_distributed_sampler": "always false: our own batch sampler deals the batches out to the processes",
}
TRAINER_PAGE = "https://lightning.ai/docs/pytorch/stable/common/trainer.html"


def trainer_names() -> list[str]:
    """The names of the Trainer's arguments, read in its source."""
    package = find_spec("lightning")
    assert package is not None
    assert package.submodule_search_locations is not None
    source = Path(package.submodule_search_locations[0], "pytorch", "trainer", "trainer.py").read_text(encoding="utf-8")
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "Trainer"]
    (init,) = (node for node in classes[0].body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    return [argument.arg for argument in init.args.kwonlyargs]


def _check_names(arguments: dict[str, Any]) -> None:
    """Raises ValueError for arguments that Lightning's Trainer does not have, and for those that are not a user's."""
    known = [name for name in trainer_names() if name not in RESERVED_TRAINER_ARGS]
    for name in arguments:
        if name in RESERVED_TRAINER_ARGS:
            raise ValueError(f"trainer.{name} is {RESERVED_TRAINER_ARGS[name]}")
        if name not in known:
            near = [f"trainer.{other}" for other in get_close_matches(str(name), known)]
            remedy = f"did you mean {' or '.join(near)}? " if near else ""
            raise ValueError(f"trainer.{name}: no such setting; {remedy}{TRAINER_PAGE} shows all")


def _check_time(limit: Any) -> None:
    """Raises ValueError for a `max_time` that is no time to train."""
    example, time = "00:00:10:00 are ten minutes", limit if isinstance(limit, timedelta) else None
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(limit, dict):  # {minutes: 10}
            time = timedelta(**limit)
        elif isinstance(limit, str) and re.fullmatch(r"\d+(:\d\d){3}", limit.strip()):
            days, hours, minutes, seconds = map(int, limit.split(":"))
            time = timedelta(days, seconds, hours=hours, minutes=minutes)
    if time is None:
        raise ValueError(f"trainer.max_time={limit} must be DD:HH:MM:SS: {example}")
    if time <= timedelta(0):
        raise ValueError(f"trainer.max_time={limit} leaves no time to train: {example}")


def check_names_and_values(arguments: dict[str, Any]) -> None:
    """Raises ValueError for an argument that Lightning's Trainer does not have, that is not a user's, or whose value no
    run could have, on any machine."""
    _check_names(arguments)
    for name in NOT_ZERO:
        if arguments.get(name) == 0:
            raise ValueError(f"trainer.{name}=0 is not allowed: a run trains and ends with its test; 1 is the least")
    for name, value in arguments.items():
        if type(value) in (int, float) and not (value == -1 and name in UNLIMITED) and not 0 <= value <= MAX_NUMBER:
            allowed = f"from 0 to {MAX_NUMBER:,}" + (", or -1" if name in UNLIMITED else "")
            raise ValueError(f"trainer.{name}={value} must be a number {allowed}")
        if name.startswith("limit_") and type(value) is float and value > 1 and not value.is_integer():
            raise ValueError(f"trainer.{name}={value} must be a whole number of batches, or a share of them up to 1.0")
    if (limit := arguments.get("max_time")) is not None:
        _check_time(limit)


def check_strategy_and_precision(arguments: dict[str, Any]) -> None:
    """Raises ValueError for what a run here cannot have, though the Trainer has it."""
    strategy = str(arguments.get("strategy", "auto"))
    if re.search("fsdp|deepspeed|model_parallel", strategy, re.IGNORECASE):  # the Trainer takes them in any case
        # Clipping, digests and checkpoints of ours need whole weights.
        raise ValueError(f"trainer.strategy={strategy} would cut the weights into parts: use trainer=ddp")
    if re.search("spawn|fork|notebook", strategy, re.IGNORECASE):
        # They would take what a run has learned and translated with them.
        raise ValueError(f"trainer.strategy={strategy} ends its processes with the training: use trainer=ddp")
    if (precision := str(arguments.get("precision"))) in ("bf16-true", "16-true", "64-true", "64"):
        raise ValueError(
            f"trainer.precision={precision} would train other weights than checkpoints and averages hold, which are "
            "float32: use bf16-mixed, 16-mixed or 32-true"
        )


def check_trainer_arguments(arguments: dict[str, Any]) -> None:
    """Raises ValueError for arguments that cannot be right, whatever machine this is."""
    check_names_and_values(arguments)
    check_strategy_and_precision(arguments)
