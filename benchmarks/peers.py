"""The peers (torch.nn.Transformer and transformers' MarianMT in the project's size), and a plain loop for training
them."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common import BATCH_TOKENS, DROPOUT, SMOOTHING, Row, Setting, Size, prepared, vocabulary
from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler, length_buckets
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.device import compiles_kernel_per_shape
from transformer.model.positions import sinusoidal_table

# Steps before the clock starts; more if the model is compiled for changing shapes.
WARM_UP, COMPILING = 5, 30


def batches(setting: Setting, count: int, precision: str) -> list[Batch]:
    """The first batches of the first epoch: the same as the project's in this precision."""
    split = prepared(setting.directory).split("train")
    is_bucketed = compiles_kernel_per_shape(setting.device, "bf16-mixed" if precision == "bf16" else "32-true")
    buckets = length_buckets(split.longest + 1) if is_bucketed else None
    sampler = TokenBudgetSampler(split, BATCH_TOKENS, 1, shuffle=True, buckets=buckets)
    dataset = PairDataset(split, buckets)
    found = [dataset[indices] for indices, _ in zip(sampler, range(count), strict=False)]
    # The batches of a small corpus are repeated.
    return (found * math.ceil(count / len(found)))[:count]


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with its missing parts: embeddings, positions and the projection to logits."""

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


def on(device: str, batch: Batch) -> Batch:
    return Batch(*(part if part is None else part.to(device) for part in batch))


def learn(model: nn.Module, logits: Tensor, batch: Batch, optimizer: torch.optim.Optimizer) -> Tensor:
    """One update of a peer, in the usual form; returns the loss."""
    loss = functional.cross_entropy(
        logits.float().flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def timed(update: Callable[[Batch], Tensor], work: list[Batch], warm_up: int, setting: Setting) -> Row:
    """Target tokens a second of the updates after the first `warm_up`; `update` takes a batch and returns the loss."""
    tokens = sum(int((batch.labels != PAD).sum()) for batch in work[warm_up:])
    started, losses = 0.0, []
    for index, batch in enumerate(work):
        if index == warm_up:
            setting.wait()
            started = time.perf_counter()
        losses.append(update(batch))
    setting.wait()
    seconds = time.perf_counter() - started
    assert losses[-1] < losses[0], f"it does not learn: {losses}"
    return {"target_tokens_per_second": tokens / seconds, "peak_mb": setting.peak_mb()}


def peer(system: str, setting: Setting, steps: int, precision: str, matmul: str) -> Row:
    """A plain training loop; the batches are already on the device."""
    if matmul != "default":
        torch.set_float32_matmul_precision(matmul)
    torch.backends.cuda.enable_cudnn_sdp(False)  # as in `configure_torch`: cuDNN would make a plan for every new shape
    torch.manual_seed(1)
    pieces, device = vocabulary(setting.directory), setting.device
    is_marian, is_compiled = system.startswith("transformers"), system.endswith("-compiled")
    model: Any = marian(setting.size, pieces) if is_marian else TorchTransformer(setting.size, pieces)
    model = model.to(device).train()
    if is_compiled:
        model = torch.compile(model, dynamic=True, backend=setting.compiler)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, (0.9, 0.98), fused=device == "cuda")
    bf16 = torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    warm_up = COMPILING if is_compiled and device == "cuda" else WARM_UP
    work = [on(device, batch) for batch in batches(setting, steps + warm_up, precision)]

    def update(batch: Batch) -> Tensor:
        with bf16:
            logits = _marian_logits(model, batch) if is_marian else model(batch)
        return learn(model, logits, batch, optimizer)

    return timed(update, work, warm_up, setting)
