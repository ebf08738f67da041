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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common import (
    BATCH_TOKENS,
    DROPOUT,
    PROJECT,
    SMOOTHING,
    Row,
    Setting,
    Size,
    alone,
    precisions,
    prepared,
    vocabulary,
)
from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.model.positions import sinusoidal_table

# Steps before the clock starts; compiling for changing shapes takes more of them.
WARM_UP, COMPILING = 5, 30


def batches(directory: Path | None, count: int) -> list[Batch]:
    """The first batches of the first epoch: those that the project trains on too."""
    split = prepared(directory).split("train")
    sampler, dataset = TokenBudgetSampler(split, BATCH_TOKENS, 1, shuffle=True), PairDataset(split)
    found = [dataset[indices] for indices, _ in zip(sampler, range(count), strict=False)]
    # A small corpus begins again.
    return (found * math.ceil(count / len(found)))[:count]


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with what it lacks: embeddings, positions and the projection to logits."""

    def __init__(self, size: Size, vocabulary: int) -> None:
        super().__init__()
        self.scale = math.sqrt(size.dim)
        self.embedding = nn.Embedding(vocabulary, size.dim, padding_idx=PAD)
        self.register_buffer("positions", sinusoidal_table(512, size.dim))
        sizes = size.dim, size.heads, size.layers, size.layers, size.feed_forward
        self.body = nn.Transformer(*sizes, DROPOUT, batch_first=True, norm_first=True)
        self.dropout = nn.Dropout(DROPOUT)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])

    def forward(self, batch: Batch) -> Tensor:
        hidden = None if batch.source_visible is None else ~batch.source_visible
        states = self.body(
            self.embed(batch.source),
            self.embed(batch.inputs),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(batch.inputs.size(1), device=batch.inputs.device),
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        return functional.linear(states, self.embedding.weight)


def marian(size: Size, vocabulary: int) -> nn.Module:
    """transformers' MarianMT of the same size."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=size.dim,
            encoder_layers=size.layers,
            decoder_layers=size.layers,
            encoder_attention_heads=size.heads,
            decoder_attention_heads=size.heads,
            encoder_ffn_dim=size.feed_forward,
            decoder_ffn_dim=size.feed_forward,
            dropout=DROPOUT,
            attention_dropout=DROPOUT,
            activation_dropout=DROPOUT,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=EOS,
            tie_word_embeddings=True,
        )
    )


def _marian_logits(model: nn.Module, batch: Batch) -> Tensor:
    mask = batch.source != PAD
    return model(input_ids=batch.source, attention_mask=mask.long(), decoder_input_ids=batch.inputs).logits


def _on(device: str, batch: Batch) -> Batch:
    return Batch(*(part if part is None else part.to(device) for part in batch))


def learn(model: nn.Module, logits: Tensor, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
    """One update of a peer as its users write it; returns the loss."""
    loss = functional.cross_entropy(
        logits.float().flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def peer(system: str, setting: Setting, steps: int, precision: str, matmul: str) -> Row:
    """A plain training loop; the batches lie ready on the device."""
    if matmul == "medium":
        torch.set_float32_matmul_precision("medium")
    torch.manual_seed(1)
    pieces, device = vocabulary(setting.directory), setting.device
    model: Any = marian(setting.size, pieces) if system == "transformers" else TorchTransformer(setting.size, pieces)
    model = model.to(device).train()
    if system == "torch-compiled":
        model = torch.compile(model, dynamic=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, (0.9, 0.98), fused=device == "cuda")
    bf16 = torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    warm_up = COMPILING if system == "torch-compiled" else WARM_UP
    work = [_on(device, batch) for batch in batches(setting.directory, steps + warm_up)]
    tokens = sum(int((batch.labels != PAD).sum()) for batch in work[warm_up:])
    started, losses = 0.0, []
    for number, batch in enumerate(work):
        if number == warm_up:
            setting.wait()
            started = time.perf_counter()
        with bf16:
            logits = _marian_logits(model, batch) if system == "transformers" else model(batch)
        losses.append(learn(model, logits, batch, optimizer))
    setting.wait()
    seconds = time.perf_counter() - started
    assert losses[-1] < losses[0], f"{system} does not learn: {losses}"
    return {"target_tokens_per_second": tokens / seconds, "peak_mb": setting.peak_mb()}


def _products(batch: Batch, size: Size) -> Iterator[tuple[int, int, int, int]]:
    """The matrix products of one forward pass, as (how many, rows, inner, columns)."""
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
    """The products of forward and backward alone: each of them, the gradient of its input and of its weight."""
    if matmul == "medium":
        torch.set_float32_matmul_precision("medium")
    kind = {"dtype": torch.bfloat16 if precision == "bf16" else torch.float32, "device": setting.device}
    dim, pieces = setting.size.dim, vocabulary(setting.directory)
    tokens = seconds = 0.0
    for number, batch in enumerate(batches(setting.directory, steps + WARM_UP)):
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
        if number >= WARM_UP:
            seconds += time.perf_counter() - started
            tokens += int((batch.labels != PAD).sum())
    return {"target_tokens_per_second": tokens / seconds}


def ours(setting: Setting, steps: int, precision: str, matmul: str, compiled: bool = False) -> Row:
    """`scripts/train.py` as a person runs it, but for validation and test, which are not timed and made short."""
    data = ["data=multi30k", f"data.directory={setting.directory}"] if setting.directory else ["data=toy"]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, str(PROJECT / "scripts" / "train.py"), *data, *setting.size.overrides()),
            f"tokenizer.vocabulary_size={vocabulary(setting.directory)}",
            *("training.optimizer=adam", f"training.label_smoothing={SMOOTHING}", "training.learning_rate=1e-3"),
            f"trainer={'cpu' if setting.device == 'cpu' else 'gpu'}",
            f"trainer.precision={'bf16-mixed' if precision == 'bf16' else '32-true'}",
            *(f"trainer.max_steps={steps + WARM_UP + 1}", f"data.batch_tokens={BATCH_TOKENS}"),
            *("trainer.limit_val_batches=0", "trainer.limit_test_batches=1", "search=greedy"),
            *(f"machine.threads={setting.threads}", f"hydra.run.dir={folder}/run"),
            *([f"machine.matmul_precision={matmul}"] if matmul != "default" else []),
            *(["training.compile=inductor"] if compiled else []),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        cost = json.loads(Path(folder, "run", "test.json").read_text())["cost"]
    return {"target_tokens_per_second": cost["tokens/s"], "peak_mb": cost["peak MB"]}


# (precision, matmul) of every system, a line each; the project chooses its products by itself. What is compiled is
# for GPUs: on a CPU it takes a minute to warm up and is slower then.
PEER = [("float32", "default"), ("float32", "medium"), ("bf16", "default")]
COMPARED = {
    "limit": PEER,
    "ours": [("float32", "default"), ("bf16", "default")],
    "ours-compiled": [("float32", "default"), ("bf16", "default")],
    "torch": PEER,
    "torch-compiled": [("float32", "default"), ("bf16", "default")],
    "transformers": PEER,
}


def compared(systems: list[str] | None, device: str) -> list[tuple[str, str, str]]:
    """What can be measured here of what was asked for: (system, precision, matmul)."""
    here = precisions(device)
    chosen = [name for name in COMPARED if systems is None or name in systems]
    if device == "cpu":
        chosen = [name for name in chosen if not name.endswith("-compiled")]
    if not importlib.util.find_spec("transformers"):
        chosen = [name for name in chosen if name != "transformers"]
    return [(name, *mode) for name in chosen for mode in COMPARED[name] if mode[0] in here]


def measure(case: tuple[str, str, str], setting: Setting, steps: int) -> Row:
    system, precision, matmul = case
    if system.startswith("ours"):
        return ours(setting, steps, precision, matmul, compiled=system == "ours-compiled")
    if system == "limit":
        return alone(limit, setting, steps, precision, matmul, threads=setting.threads)  # type: ignore[no-any-return]
    return alone(peer, system, setting, steps, precision, matmul, threads=setting.threads)  # type: ignore[no-any-return]
