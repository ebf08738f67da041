"""Small whole runs in this process, and what must be equal of two of them."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from tests.conftest import model_plain
from tests.data.test_corpus import write
from tests.training.test_module import DIGITS, ENGLISH
from transformer.config import from_dict
from transformer.model.transformer import Decoder
from transformer.training.config import RunSettings
from transformer.training.train import run

SEARCH = {
    **{"method": "greedy", "beam": 1, "length_penalty": 1.0, "min_length": 0, "max_length": 12, "length_ratio": 1.0},
    **{"length_extra": 3, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 1},
}


def corpus(folder: Path) -> Path:
    """Numbers read out digit by digit, as in tests/training: what 20 steps can begin to learn."""
    for name, numbers in (("train", range(17, 4000, 23)), ("validation", range(18, 4000, 97)), ("test", range(19, 29))):
        for language, words in (("de", DIGITS), ("en", ENGLISH)):
            lines = [" ".join(words[int(digit)] for digit in str(number)) for number in numbers]
            write(folder, f"{name}.{language}", lines)
    return folder


def settings(corpus: Path, **changes: Any) -> dict[str, Any]:
    """All settings of a run of 20 steps as plain data; `a__b=x` sets a.b."""
    attention = {"dropout": 0.1, "heads": 2}
    model = model_plain(dim=16, dropout=0.1, feed_forward__dim=24, feed_forward__dropout=0.1, positions="sinusoidal")
    for stack, kinds in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        model[stack]["layers"] = 1  # type: ignore[index]
        for kind in kinds:
            model[stack][f"{kind}_attention"] |= attention  # type: ignore[index]
    plain: dict[str, Any] = {
        "seed": 3,
        "init_from": None,
        "metrics": ["bleu", "chrf", "ter"],
        "loggers": ["csv"],
        "data": {
            "name": "cut",
            **{"source_language": "de", "target_language": "en", "directory": None, "extra_tests": {}, "url": None},
            **{name: str(corpus / name) for name in ("train", "validation", "test")},
            **{
                "sha256": {},
                "license": None,
                "home": None,
                "max_length": 40,
                "batch_tokens": 100,
                "workers": 0,
                "both_directions": False,
                "cache": str(corpus / "cache"),
            },
        },
        "tokenizer": {
            **{"kind": "word", "vocabulary_size": 120, "joint": True, "character_coverage": 1.0},
            "byte_fallback": False,
        },
        "training": {
            **{"optimizer": "adamw", "learning_rate": 0.03, "betas": [0.9, 0.98], "weight_decay": 0.1},
            **{"schedule": "cosine", "warmup_steps": 4, "label_smoothing": 0.1, "validate_every": 6, "patience": 50},
            "compile": None,
            **{"checkpoint_every_steps": None, "checkpoint_every_minutes": None, "samples": 1},
            **{"r_drop": 0.0, "bpe_dropout": 0.0, "regularization": {"word_dropout": 0.0, "layer_drop": 0.0}},
            "averaging": {"kind": "none", "decay": 0.9, "count": 3},
        },
        "validation_search": SEARCH,
        "search": SEARCH,
        "machine": {"threads": 1, "matmul_precision": "highest", "attention": None},
        "model": {key: value for key, value in model.items() if not key.endswith("_vocabulary")},
        "trainer": {
            **{"accelerator": "cpu", "devices": 1, "max_steps": 20, "gradient_clip_val": 1.0},
            **{"accumulate_grad_batches": 1, "log_every_n_steps": 3, "num_sanity_val_steps": 0},
        },
    }
    for path, value in changes.items():
        *above, key = path.split("__")
        place = plain
        for name in above:
            place = place[name]
        place[key] = value
    return plain


def assert_equal_runs(one: Path, other: Path) -> None:
    """Bit for bit: weights, optimizer, schedule, callbacks, position and settings of both checkpoints, the log, the
    picture and the translations."""
    for name in ("last", "best"):
        saved, expected = (torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True) for run in (one, other))
        assert_equal(saved, expected, (str(one), str(other)), name)
    for name in ("metrics.csv", "curves.png", "hypotheses.test.txt"):
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


def train(folder: Path, plain: dict[str, Any], resume: Path | None = None) -> None:
    folder.mkdir(exist_ok=True)
    rest = {key: value for key, value in plain.items() if key not in ("model", "trainer")}
    run(from_dict(RunSettings, rest, ""), plain["model"], plain["trainer"], folder, resume, lambda: None)


def last(folder: Path) -> Path | None:
    """What a run can go on from."""
    path = folder / "checkpoints" / "last.ckpt"
    return path if path.exists() else None


def position(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["run"]["position"]


@contextmanager
def trouble(batch: int, cause: Callable[[torch.Tensor], torch.Tensor | None]) -> Iterator[None]:
    """Calls `cause` with the decoder's states in the middle of the so-manyth batch, of training or validation."""
    left = batch

    def count_down(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        nonlocal left
        # Not a step of a search, nor the pass behind a picture, which records its attention.
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
