"""Code that all benchmarks share: the corpus, the sizes of models, and a process for each measurement."""

import multiprocessing
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from transformer import ModelConfig  # noqa: E402
from transformer.cli.compose import compose  # noqa: E402
from transformer.config import from_dict  # noqa: E402
from transformer.data.config import DataSettings  # noqa: E402
from transformer.data.datamodule import TranslationData  # noqa: E402
from transformer.data.tokenizer import TokenizerSettings  # noqa: E402
from transformer.device import find_hardware  # noqa: E402
from transformer.training.throughput import peak_memory  # noqa: E402

Row = dict[str, Any]
PRECISIONS = ("float32", "bf16", "int8")
VOCABULARY, DROPOUT, SMOOTHING, BATCH_TOKENS = 8000, 0.1, 0.1, 4096


@dataclass(frozen=True)
class Size:
    """The size of a model with pre-norm and all embeddings tied."""

    dim: int
    feed_forward: int
    heads: int
    layers: int

    def overrides(self) -> list[str]:
        """The size as arguments of the project's command line."""
        return [
            "model=small",
            f"model.dim={self.dim}",
            f"model.feed_forward.dim={self.feed_forward}",
            f"model.heads={self.heads}",
            f"model.layers={self.layers}",
            f"model.dropout={DROPOUT}",
            f"model.feed_forward.dropout={DROPOUT}",
            f"model.encoder.self_attention.dropout={DROPOUT}",
            f"model.decoder.self_attention.dropout={DROPOUT}",
            f"model.decoder.cross_attention.dropout={DROPOUT}",
        ]


# tiny: only to try whether a benchmark runs.
SIZES = {"tiny": Size(64, 256, 4, 1), "small": Size(256, 1024, 4, 3), "base": Size(512, 2048, 8, 6)}


@dataclass(frozen=True)
class Setting:
    """The settings that all cases of a run share."""

    directory: Path | None  # the folder of Multi30k; None: the bundled corpus
    size: Size
    device: str  # cpu or cuda
    threads: int

    @property
    def compiler(self) -> str:
        """The backend of torch.compile. On a CPU compiled training is slower, so a backend that starts fast is used."""
        return "inductor" if self.device == "cuda" else "aot_eager"

    def wait(self) -> None:
        """Waits until the GPU has finished its work."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def peak_mb(self) -> float:
        return (torch.cuda.max_memory_allocated() if self.device == "cuda" else peak_memory()) / 1e6


def vocabulary(directory: Path | None) -> int:
    """The size of the vocabulary: 8,000 pieces, or 2,000 for the bundled corpus, which has fewer."""
    return VOCABULARY if directory else 2000


def settings(directory: Path | None) -> tuple[DataSettings, TokenizerSettings]:
    """Multi30k in `directory`, or the bundled corpus, and a joint tokenizer."""
    composed = compose("data=multi30k" if directory else "data=toy", f"data.batch_tokens={BATCH_TOKENS}")
    data = composed["data"] | {"extra_tests": {}}
    if directory:  # without sha256, nothing is downloaded
        names = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
        data |= {split: str(directory / name) for split, name in names.items()} | {"sha256": {}}
    tokenizer = composed["tokenizer"] | {"vocabulary_size": vocabulary(directory)}
    return from_dict(DataSettings, data, "data"), from_dict(TokenizerSettings, tokenizer, "tokenizer")


def prepared(directory: Path | None) -> TranslationData:
    """The corpus with its joint tokenizer."""
    return TranslationData(*settings(directory), seed=1)


def config(size: Size, vocabulary: int) -> ModelConfig:
    """The model of all comparisons, with dropout everywhere."""
    sizes = f"model.dim={size.dim}", f"model.heads={size.heads}", f"model.layers={size.layers}"
    parts = "encoder.self_attention", "decoder.self_attention", "decoder.cross_attention", "feed_forward"
    dropout = [f"model.{part}.dropout={DROPOUT}" for part in parts]
    sizes += (f"model.feed_forward.dim={size.feed_forward}",)
    model = compose("model=base", "model.norm=pre", *sizes, *dropout)["model"]
    model = {key: model[key] for key in model if key not in ("heads", "layers", "score")}
    return from_dict(
        ModelConfig, model | dict.fromkeys(("source_vocab_size", "target_vocab_size"), vocabulary), "model"
    )


def precisions(device: str, asked: list[str] | None) -> tuple[str, ...]:
    """The `asked` precisions (None: all) without bf16 if the device has no instructions for it; stderr then says so."""
    chosen = tuple(name for name in PRECISIONS if asked is None or name in asked)
    if "bf16" in chosen and (why := find_hardware(device).why_slow("bf16")):
        print(f"bf16 is left out: {why}", file=sys.stderr)
        return tuple(name for name in chosen if name != "bf16")
    return chosen


def _call(connection: Any, function: Callable[..., Any], arguments: tuple[Any, ...], threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        connection.send(function(*arguments))
    except Exception as error:
        first = (str(error).strip() or "no message").splitlines()[0]
        connection.send(RuntimeError(f"{type(error).__name__}: {first}"))
        raise


def alone(function: Callable[..., Any], *arguments: Any, threads: int) -> Any:
    """Runs a function in its own process, so that no measurement inherits memory or settings; returns its result.

    If the system can fork, the process is forked from one that has already imported everything, because imports would
    take most of a short measurement. If it fails, raises RuntimeError with one line, after printing the traceback.
    """
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload(["benchmarks.run"])
    ours, theirs = context.Pipe()
    process = context.Process(target=_call, args=(theirs, function, arguments, threads))
    process.start()
    theirs.close()
    try:
        result = ours.recv()
    except EOFError:
        raise RuntimeError(f"{function.__name__}{arguments} ended without a result") from None
    process.join()
    if isinstance(result, RuntimeError):
        raise result
    return result


def spread(values: list[float]) -> float:
    """Half the range, as a share of the median."""
    return (max(values) - min(values)) / 2 / statistics.median(values)
