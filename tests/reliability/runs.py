"""Small whole runs in this process, and the comparison of two of them."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from tests.data.corpora import write
from tests.factories import composed
from tests.training.small import DIGITS, ENGLISH
from transformer.cli.train import of_run, shape
from transformer.config import from_dict
from transformer.model.config import read_model
from transformer.model.transformer import Decoder
from transformer.run import Run
from transformer.training.config import RunSettings
from transformer.training.train import run

# The settings of a run of 20 steps, beside the presets. It writes no log, because drawing its curves at each validation
# would take longer than the rest. A test of the log sets `loggers=["csv"]`.
OVERRIDES = (
    *("seed=3", "loggers=[]", "machine.threads=1", "machine.matmul_precision=highest"),
    *("data=files", "data.max_length=40", "data.batch_tokens=100", "tokenizer=word", "tokenizer.vocabulary_size=120"),
    *("model=tiny", "model.dim=16", "model.heads=2", "model.layers=1", "model.max_length=64"),
    *("model.feed_forward.dim=24", "model.feed_forward.dropout=0.1", "model.encoder.self_attention.dropout=0.1"),
    *("model.decoder.self_attention.dropout=0.1", "model.decoder.cross_attention.dropout=0.1"),
    *("training=standard", "training.learning_rate=0.03", "training.weight_decay=0.1", "training.warmup_steps=4"),
    *("training.samples=1", "training.validate_every=6", "training.patience=50"),
    "training.averaging={decay: 0.9, count: 3}",
    *("trainer=cpu", "trainer.precision=32-true", "trainer.max_steps=20", "trainer.log_every_n_steps=3"),
    "search=greedy",
    *(f"{search}.{change}" for search in ("search", "validation_search")
      for change in ("beam=1", "max_length=12", "length_ratio=1", "length_extra=3")),
)  # fmt: skip


def corpus(folder: Path) -> Path:
    """Numbers read out digit by digit, as in tests/training: 20 steps can begin to learn this."""
    for name, numbers in (("train", range(17, 4000, 23)), ("validation", range(18, 4000, 97)), ("test", range(19, 29))):
        for language, words in (("de", DIGITS), ("en", ENGLISH)):
            lines = [" ".join(words[int(digit)] for digit in str(number)) for number in numbers]
            write(folder, f"{name}.{language}", lines)
    return folder


def settings(corpus: Path, **changes: Any) -> dict[str, Any]:
    """All settings of a run of 20 steps as plain data; `a__b=x` sets a.b."""
    plain = of_run(composed(*OVERRIDES))
    plain["data"] |= {name: str(corpus / name) for name in ("train", "validation", "test", "cache")}
    plain["model"] = shape(read_model(plain["model"]))
    for path, value in changes.items():
        *above, key = path.split("__")
        place = plain
        for name in above:
            place = place[name]
        place[key] = value
    return plain


def assert_equal_runs(one: Path, other: Path) -> None:
    """Equal bit for bit: weights, optimizer, averages, position and settings of both checkpoints (without the times),
    the snapshots, the log, the picture and the translations."""
    for name in ("last", "best"):
        saved, expected = (torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True) for run in (one, other))
        assert saved.pop("seconds") > 0 < expected.pop("seconds")
        assert_equal(saved, expected, (str(one), str(other)), name)
    snapshots = [f"snapshots/{path.name}" for run in (one, other) for path in Run(run).snapshots.values()]
    for name in ("metrics.csv", "curves.png", "hypotheses.test.txt", *snapshots):
        assert (one / name).exists() == (other / name).exists(), name
        assert not (one / name).exists() or (one / name).read_bytes() == (other / name).read_bytes(), name


def assert_equal(saved: Any, expected: Any, folders: tuple[str, str], where: str) -> None:
    assert type(saved) is type(expected), where
    if isinstance(saved, dict):
        assert [str(key).replace(*folders) for key in saved] == [str(key) for key in expected], where
        for (key, value), wanted in zip(saved.items(), expected.values(), strict=True):
            assert_equal(value, wanted, folders, f"{where}.{key}")
    elif isinstance(saved, list | tuple):
        assert len(saved) == len(expected), where
        for place, (value, wanted) in enumerate(zip(saved, expected, strict=True)):
            assert_equal(value, wanted, folders, f"{where}[{place}]")
    elif isinstance(saved, torch.Tensor):
        assert saved.dtype == expected.dtype, where
        assert torch.equal(saved, expected), where
    else:
        assert (saved.replace(*folders) if isinstance(saved, str) else saved) == expected, where


def train(folder: Path, plain: dict[str, Any], resume: Path | None = None, replace: bool = False, **hooks: Any) -> None:
    folder.mkdir(exist_ok=True)
    rest = {key: value for key, value in plain.items() if key != "model"}
    run(from_dict(RunSettings, rest, ""), plain["model"], folder, resume, replace, **hooks)


def last(folder: Path) -> Path | None:
    """The checkpoint from which a run can continue."""
    path = folder / "checkpoints" / "last.ckpt"
    return path if path.exists() else None


def position(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["progress"]


@contextmanager
def trouble(batch: int, cause: Callable[[torch.Tensor], torch.Tensor | None]) -> Iterator[None]:
    """Calls `cause` with the decoder's states in the middle of batch number `batch`: in training, or in the pass of a
    validation that computes its loss."""
    left = batch

    def count_down(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        nonlocal left
        # Neither a step of a search nor the pass for a picture, which records attention.
        if not isinstance(module, Decoder) or inputs[0].size(1) == 1 or inputs[2] is not None:
            return None
        left -= 1
        changed = cause(output[0]) if left == 0 else None
        return None if changed is None else (changed, output[1])

    hook = register_module_forward_hook(count_down)
    try:
        yield
    finally:
        hook.remove()


def term(_: torch.Tensor) -> None:
    signal.raise_signal(signal.SIGTERM)  # on Windows, os.kill would end the process


def crash(_: torch.Tensor) -> None:
    raise RuntimeError("a crash")


def kill(_: torch.Tensor) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def spoil(output: torch.Tensor) -> torch.Tensor:
    return output * torch.nan


CAUSES: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    **{"crash": crash, "kill": kill, "nan": spoil, "none": lambda _: None}
}
