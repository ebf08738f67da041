"""Training with CUDA graphs: updates are recorded once and then started by one call instead of a thousand.

A graph has one shape. So batches are padded to one of four widths, and all batches of a width have as many rows as the
limit of tokens allows; padding takes time, but its tokens are not counted. The project's model runs in a plain loop,
like the peers. A CPU has no graphs and runs the same updates without them.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common import BATCH_TOKENS, SMOOTHING, Row, Setting, config, prepared, vocabulary
from benchmarks.peers import WARM_UP, on, timed
from transformer import Transformer
from transformer.data.batching import Batch, PairDataset
from transformer.data.tokenizer import PAD
from transformer.device import configure_torch
from transformer.kernels.linear_cross_entropy import linear_cross_entropy
from transformer.machine import MachineSettings
from transformer.model.masks import padding_mask

# These shares of all pairs fit into the four widths. Widths are multiples of 8, which matrix units need.
SHARES, MULTIPLE = (0.5, 0.8, 0.95, 1.0), 8
# Updates before recording: they allocate memory and choose kernels.
BEFORE_RECORDING = 3


def padded(batch: Batch, width: int) -> Batch:
    source, inputs, labels = (
        functional.pad(ids, (0, width - ids.size(1)), value=PAD) for ids in (batch.source, batch.inputs, batch.labels)
    )
    return Batch(source, padding_mask(source, PAD, has_padding=True), inputs, labels, batch.indices)


def shaped_batches(setting: Setting, count: int) -> list[Batch]:
    """Batches in random order, of at most four shapes; pairs that do not fill a batch of their width are left out."""
    split, random = prepared(setting.directory).split("train"), np.random.default_rng(1)
    lengths = np.maximum(*split.lengths(epoch=0)) + 1  # the end symbol counts
    widths = sorted({MULTIPLE * math.ceil(length / MULTIPLE) for length in np.quantile(lengths, SHARES)})
    chosen = []
    for narrower, width in itertools.pairwise([0, *widths]):
        numbers = random.permutation(np.flatnonzero((lengths > narrower) & (lengths <= width)))
        rows = BATCH_TOKENS // width
        starts = range(0, len(numbers) - rows + 1, rows)
        chosen += [(numbers[start : start + rows], width) for start in starts]
    order = itertools.islice(itertools.cycle(random.permutation(len(chosen)).tolist()), count)
    dataset = PairDataset(split)
    return [padded(dataset[0, chosen[i][0]], chosen[i][1]) for i in order]


def recorded(update: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
    """The update as a graph (torch's notes on CUDA, "Whole-network capture"). Every call reads and writes the same
    memory, also for the loss that it returns."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(BEFORE_RECORDING):
            update()
    torch.cuda.current_stream().wait_stream(aside)
    optimizer.zero_grad()  # the gradients of a graph are in its own memory
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = update()

    def replay() -> Tensor:
        graph.replay()
        return loss

    return replay


def graphs(setting: Setting, steps: int, precision: str) -> Row:
    """As `peers.peer`; the peak of memory includes the memory of the graphs."""
    device, on_gpu = setting.device, setting.device == "cuda"
    configure_torch(MachineSettings(setting.threads, None, None), device)  # as in the project
    torch.manual_seed(1)
    model = Transformer(config(setting.size, vocabulary(setting.directory))).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, (0.9, 0.98), fused=on_gpu, capturable=on_gpu)
    updates: dict[torch.Size, tuple[Batch, Callable[[], Tensor]]] = {}

    def learn(batch: Batch) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext():
            states = model.decode_hidden(batch.inputs, model.encode(batch.source, batch.source_visible))
            loss = linear_cross_entropy(states, model.output.weight, batch.labels, SMOOTHING, PAD, model.output.bias)
            loss = loss / (batch.labels != PAD).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def update(batch: Batch) -> Tensor:
        if batch.source.shape not in updates:
            static = Batch(*(part.clone() for part in batch))
            once = functools.partial(learn, static)
            updates[batch.source.shape] = static, recorded(once, optimizer) if on_gpu else once
        static, run = updates[batch.source.shape]
        for part, latest in zip(static, batch, strict=True):
            part.copy_(latest)
        return run().clone()

    work = [on(device, batch) for batch in shaped_batches(setting, steps + WARM_UP)]
    # Every shape is recorded before the clock starts.
    first = {batch.source.shape: batch for batch in work}
    row = timed(update, [*first.values(), *work], len(first) + WARM_UP, setting)
    return row | ({"peak_mb": torch.cuda.max_memory_reserved() / 1e6} if on_gpu else {})
