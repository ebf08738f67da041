"""How time and memory grow: with batch tokens, sentence length, vocabulary and the size of the corpus.

Each series is drawn on logarithmic axes with its exponent: the slope of the line, 1 for what grows in proportion.
"""

import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from rich.console import Console
from rich.progress import track

from benchmarks.common import SIZES, Row, alone, config, settings
from transformer import Transformer
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.device import MachineSettings, configure_torch
from transformer.training.callbacks.throughput import peak_memory
from transformer.training.loss import linear_cross_entropy

STEPS = 5
# What a series changes, and what stays: batch tokens, sentence length, vocabulary.
SERIES = {
    "batch tokens": [(tokens, 16, 8000) for tokens in (1024, 2048, 4096, 8192, 16384)],
    "sentence length": [(4096, length, 8000) for length in (16, 64, 256, 1024)],
    "vocabulary": [(4096, 16, size) for size in (2000, 8000, 32000, 128000)],
}
MEASURES = {"seconds": "seconds", "memory_mb": "memory in MB"}
CORPUS = (10_000, 100_000, 1_000_000, 5_000_000)


def step(tokens: int, length: int, size: int, threads: int) -> Row:
    """Seconds and peak memory of a training step on sentences of one length."""
    configure_torch(MachineSettings(threads, None, None), "cpu")
    torch.manual_seed(1)
    model = Transformer(replace(config(SIZES["small"], size), max_length=max(512, length))).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    ids = torch.randint(4, size, (max(1, tokens // length), length))
    before, seconds = peak_memory(), []
    for _ in range(STEPS + 1):
        started = time.perf_counter()
        states = model.decode_hidden(ids, model.encode(ids))
        loss = linear_cross_entropy(states, model.output.weight, ids, 0.1, ignore_index=PAD)
        optimizer.zero_grad()
        (loss / ids.numel()).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - started)
    return {"seconds": statistics.median(seconds[1:]), "memory_mb": (peak_memory() - before) / 1e6}


def decode(length: int, threads: int) -> Row:
    """Seconds for eight sentences of one length by a beam of 5, as many tokens out as in."""
    configure_torch(MachineSettings(threads, None, None), "cpu")
    from transformer.inference.search import search
    from transformer.inference.translator import BEAM

    torch.manual_seed(1)
    model = Transformer(replace(config(SIZES["small"], 8000), max_length=max(512, length + 1))).eval()
    settings = replace(BEAM, min_length=length, max_length=length)
    source = torch.randint(4, 8000, (8, length))
    before, started = peak_memory(), time.perf_counter()
    with torch.inference_mode():
        cache = model.decoder.init_cache(model.encode(source))

        def next_scores(ids, state):  # type: ignore[no-untyped-def]
            logits, state = model.step(ids, state)
            return logits.log_softmax(-1), state

        found = search(next_scores, cache, torch.full((8,), 1), 2, [length] * 8, list(range(8)), settings)
    assert all(len(hypothesis.ids) == length for row in found for hypothesis in row)
    return {"seconds": time.perf_counter() - started, "memory_mb": (peak_memory() - before) / 1e6}


def prepare(pairs: int, directory: Path | None) -> Row:
    """Seconds and peak memory from text files of so many pairs to the first batch, tokenizers trained anew."""
    corpus, tokenizer = settings(directory)
    lines = [f"{source}\t{target}" for source, target in corpus.read("train")]
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "train.tsv").open("w", encoding="utf-8") as file:
            for number in range(pairs):
                source, target = draw.choice(lines).split("\t")
                file.write(f"{source} {number % 977}\t{target} {number % 977}\n")
        splits = dict.fromkeys(("train", "validation", "test"), f"{folder}/train.tsv")
        started = time.perf_counter()
        data = TranslationData(replace(corpus, **splits, cache=folder), tokenizer, seed=1)
        next(iter(data.loader("train")))
        return {"seconds": time.perf_counter() - started, "memory_mb": peak_memory() / 1e6}


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope of log(value) against log(size) over the upper half, where what is constant no longer counts."""
    xs, ys = [[math.log(v) for v in side[len(side) // 2 - 1 :]] for side in (sizes, values)]
    return statistics.linear_regression(xs, ys).slope


def main(directory: Path | None, threads: int, output: Path | None, picture: Path | None) -> None:
    """Measures all series; prints a line each, and writes rows and picture where asked."""
    work = [
        (name, sizes[("batch tokens", "sentence length", "vocabulary").index(name)], step, (*sizes, threads))
        for name in SERIES
        for sizes in SERIES[name]
    ]
    work += [("decoded length", length, decode, (length, threads)) for length in (16, 64, 256, 1000)]
    work += [("corpus pairs", pairs, prepare, (pairs, directory)) for pairs in CORPUS]
    rows: list[Row] = []
    for name, size, function, arguments in track(work, "measuring", console=Console(stderr=True)):
        rows.append({"series": name, "size": size} | alone(function, *arguments, threads=threads))
    for series, shown, exponents in curves(rows):
        for key, label in MEASURES.items():
            values = "  ".join(f"{size:,}: {value:,.3g}" for size, value in shown[key])
            print(f"{series:16} {label:13} exponent {exponents[key]:5.2f}   {values}")
    if output:
        output.write_text(json.dumps(rows, indent=1))
    if picture:
        draw(rows, picture)


def curves(rows: list[Row]) -> Iterator[tuple[str, dict[str, list[tuple[int, float]]], dict[str, float]]]:
    """Of each series its (size, value) pairs and its exponent, by measure. A decoder of short sentences needs no more
    memory than its start took: such a point has no place on logarithmic axes."""
    for series in dict.fromkeys(row["series"] for row in rows):
        shown = {
            key: [(row["size"], row[key]) for row in rows if row["series"] == series and row[key] > 0]
            for key in MEASURES
        }
        yield series, shown, {key: exponent(*map(list, zip(*points, strict=True))) for key, points in shown.items()}


def draw(rows: list[Row], picture: Path) -> None:
    """A column for each series, a line for each measure, on logarithmic axes."""
    found = list(curves(rows))
    figure = Figure(figsize=(3.2 * len(found), 5.2), layout="constrained")
    for column, (series, shown, exponents) in enumerate(found):
        for line, (key, label) in enumerate(MEASURES.items()):
            axes = figure.add_subplot(len(MEASURES), len(found), 1 + column + line * len(found))
            axes.loglog(*zip(*shown[key], strict=True), "o-")
            sizes = [row["size"] for row in rows if row["series"] == series]
            axes.set_xticks(sizes, [_short(size) for size in sizes])
            axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5), numticks=6))
            axes.yaxis.set_major_formatter(FuncFormatter(_short))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(series)
            axes.set_ylabel(label)
            axes.set_title(f"exponent {exponents[key]:.2f}", fontsize="medium")
            axes.grid(alpha=0.3, which="both")
    figure.savefig(picture, dpi=110)


def _short(value: float, _: object = None) -> str:
    """5000000 as 5M."""
    unit, name = next((u for u in ((1e6, "M"), (1e3, "k")) if value >= u[0]), (1, ""))
    return f"{value / unit:.3g}{name}"
