"""Training: target tokens a second (padding not counted) of the project's own `scripts/train.py` and of peers.

All see the same sentence pairs in batches of 4,096 tokens formed alike, the same size of model, all dropouts at 0.1,
label smoothing 0.1, Adam, clipping at 1. The peers run in a plain loop over batches that lie ready; the project as a
person runs it, with loader, schedule, logging and its own batching. *limit* is the time of the forward and backward
matrix products of these batches alone.
"""

import contextlib
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common import (
    BATCH_TOKENS,
    DIM,
    DROPOUT,
    FEED_FORWARD,
    HEADS,
    LAYERS,
    PROJECT,
    SIZE,
    SMOOTHING,
    Row,
    alone,
    prepared,
    vocabulary,
)
from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler
from transformer.data.tokenizer import PADDING
from transformer.model.positions import sinusoidal_table
from transformer.reporting.cost import peak_memory

WARM_UP = 5


def batches(directory: Path | None, count: int) -> list[Batch]:
    """The first batches of the first epoch: those that the project trains on too."""
    split = prepared(directory).split("train")
    sampler, dataset = TokenBudgetSampler(split, BATCH_TOKENS, 1, shuffle=True), PairDataset(split)
    found = [dataset[indices] for indices, _ in zip(sampler, range(count), strict=False)]
    # A small corpus begins again.
    return (found * math.ceil(count / len(found)))[:count]


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with what it lacks: embeddings, positions and the projection to logits."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, DIM, padding_idx=PADDING)
        self.register_buffer("positions", sinusoidal_table(512, DIM))
        self.body = nn.Transformer(DIM, HEADS, LAYERS, LAYERS, FEED_FORWARD, DROPOUT, batch_first=True, norm_first=True)
        self.dropout = nn.Dropout(DROPOUT)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(DIM) + self.positions[: ids.size(1)])

    def forward(self, batch: Batch) -> Tensor:
        hidden = None if batch.source_real is None else ~batch.source_real
        states = self.body(
            self.embed(batch.source),
            self.embed(batch.inputs),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(batch.inputs.size(1)),
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        return functional.linear(states, self.embedding.weight)


def marian(size: int) -> nn.Module:
    """transformers' MarianMT of the same size."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=size,
            d_model=DIM,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=FEED_FORWARD,
            decoder_ffn_dim=FEED_FORWARD,
            dropout=DROPOUT,
            attention_dropout=DROPOUT,
            activation_dropout=DROPOUT,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=PADDING,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=2,
            tie_word_embeddings=True,
        )
    )


def _marian_logits(model: nn.Module, batch: Batch) -> Tensor:
    mask = batch.source != PADDING
    return model(input_ids=batch.source, attention_mask=mask.long(), decoder_input_ids=batch.inputs).logits


def peer(system: str, directory: Path | None, steps: int, precision: str, matmul: str) -> Row:
    """A plain training loop."""
    if matmul == "medium":
        torch.set_float32_matmul_precision("medium")
    torch.manual_seed(1)
    size = vocabulary(directory)
    model = TorchTransformer(size) if system == "torch" else marian(size)
    logits_of: Callable[[Any, Batch], Tensor] = TorchTransformer.__call__ if system == "torch" else _marian_logits
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, (0.9, 0.98))
    bf16 = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    started, tokens, losses = 0.0, 0, []
    for number, batch in enumerate(batches(directory, steps + WARM_UP)):
        if number == WARM_UP:
            started = time.perf_counter()
        with bf16:
            logits = logits_of(model, batch)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), batch.labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        tokens += int((batch.labels != PADDING).sum()) if number >= WARM_UP else 0
    seconds = time.perf_counter() - started
    assert losses[-1] < losses[0], f"{system} does not learn: {losses}"
    return {"target_tokens_per_second": tokens / seconds, "peak_mb": peak_memory() / 1e6}


def _products(batch: Batch) -> Iterator[tuple[int, int, int, int]]:
    """The matrix products of one forward pass, as (how many, rows, inner, columns)."""
    rows, source = batch.source.shape
    target, real = batch.inputs.size(1), int((batch.labels != PADDING).sum())
    head = DIM // HEADS
    for _ in range(LAYERS):
        for queries, keys in ((source, source), (target, target), (target, source)):
            yield 2, rows * queries, 0, DIM  # queries and output
            yield 2, rows * keys, 0, DIM  # keys and values
            yield -rows * HEADS, queries, head, keys
            yield -rows * HEADS, queries, keys, head
        for length in (source, target):
            yield 1, rows * length, DIM, FEED_FORWARD
            yield 1, rows * length, FEED_FORWARD, DIM
    yield 1, real, DIM, 0


def limit(directory: Path | None, steps: int, precision: str, matmul: str) -> Row:
    """The products of forward and backward alone: each of them, the gradient of its input and of its weight."""
    if matmul == "medium":
        torch.set_float32_matmul_precision("medium")
    kind, size = torch.bfloat16 if precision == "bf16" else torch.float32, vocabulary(directory)
    tokens = seconds = 0.0
    for number, batch in enumerate(batches(directory, steps + WARM_UP)):
        work = []
        for count, rows, inner, columns in _products(batch):
            shape = (rows, inner or DIM, columns or size)
            many = () if count > 0 else (-count,)
            left, right = torch.randn(*many, *shape[:2], dtype=kind), torch.randn(*many, *shape[1:], dtype=kind)
            work.append((max(count, 1), left, right, torch.randn(*many, shape[0], shape[2], dtype=kind)))
        started = time.perf_counter()
        for count, left, right, gradient in work:
            for _ in range(count):
                _ = left @ right
                _ = gradient @ right.transpose(-2, -1)
                _ = left.transpose(-2, -1) @ gradient
        if number >= WARM_UP:
            seconds += time.perf_counter() - started
            tokens += int((batch.labels != PADDING).sum())
    return {"target_tokens_per_second": tokens / seconds}


def ours(directory: Path | None, steps: int, precision: str, matmul: str, threads: int) -> Row:
    """`scripts/train.py` as a person runs it, but for validation and test, which are not timed and made short."""
    data = ["data=multi30k", f"data.directory={directory}"] if directory else ["data=toy"]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, str(PROJECT / "scripts" / "train.py"), *data, *SIZE),
            f"tokenizer.vocabulary_size={vocabulary(directory)}",
            *("training.optimizer=adam", f"training.label_smoothing={SMOOTHING}", "training.learning_rate=1e-3"),
            *("trainer=cpu", f"trainer.precision={'bf16-mixed' if precision == 'bf16' else '32-true'}"),
            *(f"trainer.max_steps={steps + WARM_UP + 1}", f"data.batch_tokens={BATCH_TOKENS}"),
            *("trainer.limit_val_batches=0", "trainer.limit_test_batches=1", "search=greedy"),
            *(f"machine.threads={threads}", f"hydra.run.dir={folder}/run"),
            *([f"machine.products={matmul}"] if matmul != "default" else []),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        cost = json.loads(Path(folder, "run", "test.json").read_text())["cost"]
    return {"target_tokens_per_second": cost["tokens/s"], "peak_mb": cost["peak MB"]}


# What is compared: (system, precision, matmul). The project chooses its products by itself.
COMPARED = [
    *(("limit", "float32", "default"), ("limit", "float32", "medium"), ("limit", "bf16", "default")),
    *(("ours", "float32", "default"), ("ours", "bf16", "default")),
    *(("torch", "float32", "default"), ("torch", "float32", "medium"), ("torch", "bf16", "default")),
    *(
        ("transformers", "float32", "default"),
        ("transformers", "float32", "medium"),
        ("transformers", "bf16", "default"),
    ),
]


def compared(systems: list[str] | None) -> list[tuple[str, str, str]]:
    """What can be measured here of what was asked for."""
    found = [row for row in COMPARED if systems is None or row[0] in systems]
    return [row for row in found if row[0] != "transformers" or importlib.util.find_spec("transformers")]


def measure(case: tuple[str, str, str], directory: Path | None, steps: int, threads: int) -> Row:
    system, precision, matmul = case
    if system == "ours":
        return ours(directory, steps, precision, matmul, threads)
    if system == "limit":
        return alone(limit, directory, steps, precision, matmul, threads=threads)
    return alone(peer, system, directory, steps, precision, matmul, threads=threads)
