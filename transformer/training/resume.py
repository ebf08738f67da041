"""What is checked before a run resumes from a checkpoint: which settings must stay, and which have changed."""

from dataclasses import replace
from typing import Any

import torch

from transformer.config import UsageError, flatten, shown
from transformer.data.corpus import FILE_SETTINGS
from transformer.device import MachineSettings, device_kind

# A different value of these makes a different run. Corpora are compared by their bytes, not by their paths.
FIXED = (
    *("seed", "init_from", "model", "tokenizer", "training.optimizer", "training.averaging.kind"),
    *("data.source_language", "data.target_language", "data.max_length", "data.directions"),
    *("data.direction_temperature", "data.synthetic_ratio", "data.synthetic_tag"),
)
FIXED_CORPORA = ("digests.train", "digests.validation", "digests.synthetic")
# Names and paths, which the digests of the corpora make irrelevant.
PATHS = tuple(
    f"data.{name}"
    for name in (*FILE_SETTINGS, "name", "columns", "split", "extra_tests", "synthetic", "cache", "url", "sha256")
)


def numerics(accelerator: str) -> dict[str, Any]:
    """What decides the last bits of a sum on this machine: a run may go on with other numerics, but not exactly."""
    return {
        "device": device_kind(accelerator),
        "torch": torch.__version__.split("+")[0],
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def restore_numerics(machine: MachineSettings, accelerator: str, saved: dict[str, Any] | None) -> MachineSettings:
    """With the matmul precision that was measured to be best when the run began, unless one is set: timings differ. On
    another kind of device, another may be best."""
    if saved is None or machine.matmul_precision is not None:
        return machine
    before = saved["settings"]["numerics"]
    if before["device"] != device_kind(accelerator):
        return machine
    return replace(machine, matmul_precision=before["matmul_precision"])


def check_resumption(saved: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Compares the `settings` with those of a checkpoint; returns each setting that has
    changed, and each test set, as a line. Raises UsageError where the run cannot go on with them."""
    steps, max_steps = saved["progress"]["step"], settings["trainer"]["max_steps"]
    if 0 <= max_steps < steps:
        raise UsageError(
            f"trainer.max_steps={max_steps}: the run has done {steps:,} steps already; give more, or leave it"
        )
    before, after = dict(flatten(saved["settings"])), dict(flatten(settings))
    # A group that is null, as an attention that is left out, is one key.
    changed = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    lines = {key: f"{key}={shown(after.get(key))} (was {shown(before.get(key))})" for key in changed}

    def within(key: str, *groups: str) -> bool:
        return any(key == group or key.startswith(f"{group}.") for group in groups)

    if refused := [lines[key] for key in changed if within(key, *FIXED)]:
        raise UsageError(f"a resumed run cannot change {', '.join(refused)}: leave that out, or start a new run")
    if corpora := [key.removeprefix("digests.") for key in changed if within(key, *FIXED_CORPORA)]:
        raise UsageError(
            f"the files of {' and '.join(corpora)} are not those that the run was trained on: give it the files as "
            "they were, or start a new run"
        )
    tests = [f"the files of {key.removeprefix('digests.')}" for key in changed if within(key, "digests")]
    return [lines[key] for key in changed if not within(key, *PATHS, "digests")] + tests
