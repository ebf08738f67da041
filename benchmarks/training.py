"""Training: target tokens a second (without padding) of the project's own `scripts/train.py` and of peers.

All have the same sentence pairs in batches of 4,096 tokens, formed in the same way (in bf16 on a CPU padded to few
lengths), the same size of model, all dropouts at 0.1, label smoothing 0.1, Adam, clipping at 1. The peers run in a
plain loop over prepared batches (peers.py); the project runs as for users, with loader, schedule, logging and its own
batching. *limit* is only the time of the matrix multiplications of these batches, forward and backward; *ours-graphs*
is the speed with CUDA graphs (cuda_graphs.py).
"""

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.common import BATCH_TOKENS, PROJECT, SMOOTHING, Row, Setting, Size, alone, precisions, vocabulary
from benchmarks.cuda_graphs import graphs
from benchmarks.peers import COMPILING, WARM_UP, batches, peer
from transformer.data.batching import Batch
from transformer.data.tokenizer import PAD

# `scripts/train.py` writes its log after this number of steps, and waits for the GPU then.
LOGGED_EVERY = 20


def _products(batch: Batch, size: Size) -> Iterator[tuple[int, int, int, int]]:
    """The matrix multiplications of one forward pass, as (number, rows, inner, columns)."""
    rows, source = batch.source.shape
    target, real = batch.inputs.size(1), int((batch.labels != PAD).sum())
    head = size.dim // size.heads
    for _ in range(size.layers):
        for queries, keys in ((source, source), (target, target), (target, source)):
            yield 2, rows * queries, 0, size.dim  # queries and output
            yield 2, rows * keys, 0, size.dim  # keys and values
            yield -rows * size.heads, queries, head, keys
            yield -rows * size.heads, queries, keys, head
        for length in (source, target):
            yield 1, rows * length, size.dim, size.feed_forward
            yield 1, rows * length, size.feed_forward, size.dim
    yield 1, real, size.dim, 0


def limit(setting: Setting, steps: int, precision: str, matmul: str) -> Row:
    """Only the matrix multiplications: each one, and those for the gradients of its input and its weight."""
    if matmul != "default":
        torch.set_float32_matmul_precision(matmul)
    kind = {"dtype": torch.bfloat16 if precision == "bf16" else torch.float32, "device": setting.device}
    dim, pieces = setting.size.dim, vocabulary(setting.directory)
    tokens = seconds = 0.0
    for index, batch in enumerate(batches(setting, steps + WARM_UP, precision)):
        work = []
        for count, rows, inner, columns in _products(batch, setting.size):
            shape = (rows, inner or dim, columns or pieces)
            many = () if count > 0 else (-count,)
            left, right = torch.randn(*many, *shape[:2], **kind), torch.randn(*many, *shape[1:], **kind)
            work.append((max(count, 1), left, right, torch.randn(*many, shape[0], shape[2], **kind)))
        setting.wait()
        started = time.perf_counter()
        for count, left, right, gradient in work:
            for _ in range(count):
                _ = left @ right
                _ = gradient @ right.transpose(-2, -1)
                _ = left.transpose(-2, -1) @ gradient
        setting.wait()
        if index >= WARM_UP:
            seconds += time.perf_counter() - started
            tokens += int((batch.labels != PAD).sum())
    return {"target_tokens_per_second": tokens / seconds}


def ours(setting: Setting, steps: int, precision: str, matmul: str, compiled: bool = False) -> Row:
    """`scripts/train.py` as users run it, but with a short validation and test, which are not timed."""
    data = ["data=multi30k", f"data.directory={setting.directory}"] if setting.directory else ["data=toy"]
    count = steps + WARM_UP + 1
    if setting.device == "cuda":  # if a run ends with its log, it has finished all counted steps
        count = LOGGED_EVERY * math.ceil((steps + (COMPILING if compiled else WARM_UP)) / LOGGED_EVERY)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, str(PROJECT / "scripts" / "train.py"), *data, *setting.size.overrides()),
            f"tokenizer.vocabulary_size={vocabulary(setting.directory)}",
            *("training.optimizer=adam", f"training.label_smoothing={SMOOTHING}", "training.learning_rate=1e-3"),
            f"trainer={'cpu' if setting.device == 'cpu' else 'gpu'}",
            f"trainer.precision={'bf16-mixed' if precision == 'bf16' else '32-true'}",
            *(f"trainer.max_steps={count}", f"trainer.log_every_n_steps={LOGGED_EVERY}"),
            f"data.batch_tokens={BATCH_TOKENS}",
            *("trainer.limit_val_batches=0", "trainer.limit_test_batches=1", "search=greedy"),
            *(f"machine.threads={setting.threads}", f"hydra.run.dir={folder}/run"),
            *([f"machine.matmul_precision={matmul}"] if matmul != "default" else []),
            *([f"training.compile={setting.compiler}"] if compiled else []),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(*command, f"\n{done.stderr}", file=sys.stderr)
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        cost = json.loads(Path(folder, "run", "test.json").read_text())["cost"]
    return {"target_tokens_per_second": cost["tokens/s"], "peak_mb": cost["peak MB"]}


SYSTEMS = (
    *("limit", "ours", "ours-compiled", "ours-graphs"),
    *("torch", "torch-compiled", "transformers", "transformers-compiled"),
)
# On a CPU only with --systems: compiled models are slower there, and there are no graphs.
FOR_GPUS = ("ours-compiled", "ours-graphs", "torch-compiled", "transformers-compiled")
# (precision, matmul): also with `medium`, except for the project, which chooses it itself; on a GPU all with TF32.
CPU_MODES = [("float32", "default"), ("float32", "medium"), ("bf16", "default")]
GPU_MODES = [("float32", "high"), ("bf16", "default")]
WITH_MEDIUM = ("limit", "torch", "transformers")


def compared(systems: list[str] | None, device: str, asked: list[str] | None) -> list[tuple[str, str, str]]:
    """The cases to measure, among the given systems and precisions: (system, precision, matmul)."""
    here = precisions(device, asked)
    chosen = [name for name in SYSTEMS if systems is None or name in systems]
    if device == "cpu" and systems is None:
        chosen = [name for name in chosen if name not in FOR_GPUS]
    if not importlib.util.find_spec("transformers"):
        chosen = [name for name in chosen if not name.startswith("transformers")]
    modes = GPU_MODES if device == "cuda" else CPU_MODES
    return [
        (name, *mode)
        for name in chosen
        for mode in modes
        if mode[0] in here and (mode[1] != "medium" or name in WITH_MEDIUM)
    ]


def measure(case: tuple[str, str, str], setting: Setting, steps: int) -> Row:
    system, precision, matmul = case
    if system in ("ours", "ours-compiled"):
        return ours(setting, steps, precision, matmul, compiled=system == "ours-compiled")
    if system == "ours-graphs":
        return alone(graphs, setting, steps, precision, threads=setting.threads)  # type: ignore[no-any-return]
    if system == "limit":
        return alone(limit, setting, steps, precision, matmul, threads=setting.threads)  # type: ignore[no-any-return]
    return alone(peer, system, setting, steps, precision, matmul, threads=setting.threads)  # type: ignore[no-any-return]
