"""How time and memory grow: with batch tokens, sentence length, vocabulary and the size of the corpus.

Time is processor time, of all threads together: other work of the machine hardly changes it. Each series is drawn on
logarithmic axes with its exponent, the slope of the line: 1 means proportional growth.
"""

import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from rich.console import Console
from rich.progress import track

from benchmarks.common import BATCH_TOKENS, SIZES, Row, alone, config, settings
from transformer import Transformer
from transformer.data.batching import TokenBudgetSampler
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.device import configure_torch
from transformer.inference.packing import pack
from transformer.kernels.linear_cross_entropy import linear_cross_entropy
from transformer.machine import MachineSettings
from transformer.training.throughput import peak_memory

STEPS = 5
# Each series changes one of batch tokens, sentence length and vocabulary.
SERIES = {
    "batch tokens": [(tokens, 16, 8000) for tokens in (1024, 2048, 4096, 8192, 16384)],
    "sentence length": [(4096, length, 8000) for length in (16, 64, 256, 1024)],
    "vocabulary": [(4096, 16, size) for size in (2000, 8000, 32000, 128000)],
}
MEASURES = {"seconds": "processor seconds", "memory_mb": "memory in MB"}
COLUMNS = 4  # columns of the picture, so that it is readable on a page
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
        started = time.process_time()
        states = model.decode_hidden(ids, model.encode(ids))
        loss = linear_cross_entropy(states, model.output.weight, ids, 0.1, ignore_index=PAD)
        optimizer.zero_grad()
        (loss / ids.numel()).backward()
        optimizer.step()
        seconds.append(time.process_time() - started)
    return {"seconds": statistics.median(seconds[1:]), "memory_mb": (peak_memory() - before) / 1e6}


def decode(length: int, threads: int) -> Row:
    """Seconds for eight sentences of one length with a beam of 5, with as many target tokens as source tokens."""
    configure_torch(MachineSettings(threads, None, None), "cpu", is_packed=True)
    from transformer.inference.search import search
    from transformer.inference.translator import BEAM

    torch.manual_seed(1)
    model = pack(Transformer(replace(config(SIZES["small"], 8000), max_length=max(512, length + 1))).eval())
    settings = replace(BEAM, min_length=length, max_length=length)
    source = torch.randint(4, 8000, (8, length))
    before, started = peak_memory(), time.process_time()
    with torch.inference_mode():
        cache = model.decoder.init_cache(model.encode(source))

        def next_scores(ids, state):  # type: ignore[no-untyped-def]
            logits, state = model.step(ids, state)
            return logits.log_softmax(-1), state

        found = search(next_scores, cache, torch.full((8,), 1), 2, [length] * 8, list(range(8)), settings)
    assert all(len(hypothesis.ids) == length for row in found for hypothesis in row)
    return {"seconds": time.process_time() - started, "memory_mb": (peak_memory() - before) / 1e6}


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope of log(value) against log(size) over the upper half, where constant costs matter little."""
    xs, ys = [[math.log(v) for v in side[len(side) // 2 - 1 :]] for side in (sizes, values)]
    return statistics.linear_regression(xs, ys).slope


def curves(rows: list[Row]) -> Iterator[tuple[str, dict[str, list[tuple[int, float]]], dict[str, float]]]:
    """The (size, value) pairs and the exponent of each series, by measure. Points with value 0 are left out, because
    they have no place on logarithmic axes: a decoder of short sentences needs no further memory."""
    for series in dict.fromkeys(row["series"] for row in rows):
        shown = {
            key: [(row["size"], row[key]) for row in rows if row["series"] == series and row[key] > 0]
            for key in MEASURES
        }
        yield series, shown, {key: exponent(*map(list, zip(*points, strict=True))) for key, points in shown.items()}


def _short(value: float, _: object = None) -> str:
    """5000000 as 5M."""
    unit, name = next((u for u in ((1e6, "M"), (1e3, "k")) if value >= u[0]), (1, ""))
    return f"{value / unit:.3g}{name}"


def draw(rows: list[Row], picture: Path) -> None:
    """Draws each series, with its measures one above the other, on logarithmic axes."""
    found = list(curves(rows))
    lines = len(MEASURES) * math.ceil(len(found) / COLUMNS)
    figure = Figure(figsize=(3 * COLUMNS, 2.5 * lines), layout="constrained")
    for index, (series, shown, exponents) in enumerate(found):
        for measure, (key, label) in enumerate(MEASURES.items()):
            line = len(MEASURES) * (index // COLUMNS) + measure
            axes = figure.add_subplot(lines, COLUMNS, 1 + line * COLUMNS + index % COLUMNS)
            axes.loglog(*zip(*shown[key], strict=True), "o-")
            sizes = [row["size"] for row in rows if row["series"] == series]
            axes.set_xticks(sizes, [_short(size) for size in sizes])
            axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
            least, *_, most = sorted(value for _, value in shown[key])
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if most < 100 * least else (1,), numticks=6))
            axes.yaxis.set_major_formatter(FuncFormatter(_short))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(series)
            axes.set_ylabel(label)
            axes.set_title(f"exponent {exponents[key]:.2f}", fontsize="medium")
            axes.grid(alpha=0.3, which="both")
    figure.savefig(picture, dpi=110)


def write_corpus(pairs: int, directory: Path | None, folder: Path) -> None:
    """Writes pairs that are drawn from the training pairs with repetition, each with a number added."""
    lines, draw = [f"{source}\t{target}" for source, target in settings(directory)[0].read("train")], random.Random(1)
    with (folder / "train.tsv").open("w", encoding="utf-8") as file:
        for number in range(pairs):
            source, target = draw.choice(lines).split("\t")
            file.write(f"{source} {number % 977}\t{target} {number % 977}\n")


def open_corpus(directory: Path | None, folder: Path) -> TranslationData:
    corpus, tokenizer = settings(directory)
    return TranslationData(replace(corpus, train=f"{folder}/train.tsv", cache=str(folder)), tokenizer, seed=1)


def prepare(directory: Path | None, folder: Path) -> Row:
    """Processor seconds and peak memory from text files to the first batch, with the training of the tokenizer."""
    started = time.process_time()
    next(iter(open_corpus(directory, folder).loader("train")))
    return {"seconds": time.process_time() - started, "memory_mb": peak_memory() / 1e6}


def resume(directory: Path | None, folder: Path) -> Row:
    """The same for the tenth batch of the second epoch, with the tokenizer and the ids of `prepare` in the cache."""
    started = time.process_time()
    data = open_corpus(directory, folder)
    loader = data.loader("train")
    loader.sampler.start_at(1, 10)
    next(iter(loader))
    return {"seconds": time.process_time() - started, "memory_mb": peak_memory() / 1e6}


def order(directory: Path | None, folder: Path) -> Row:
    """Forming and shuffling the batches of an epoch, in a process that has already opened the ids."""
    sampler = TokenBudgetSampler(open_corpus(directory, folder).split("train"), BATCH_TOKENS, seed=1, shuffle=True)
    started = time.process_time()
    list(sampler)
    return {"seconds": time.process_time() - started, "memory_mb": peak_memory() / 1e6}


# The measurements for a corpus of each size, each in its own process; the first one fills the cache for the others.
STAGES = (prepare, order, resume)


def main(directory: Path | None, threads: int, save: Callable[[list[Row]], None], picture: Path | None) -> None:
    """Measures all series; prints a line for each, and draws the `picture` if it is given. `save` gets all rows so far
    after each measurement, because all together take half an hour."""
    work = [
        (name, sizes[("batch tokens", "sentence length", "vocabulary").index(name)], step, (*sizes, threads))
        for name in SERIES
        for sizes in SERIES[name]
    ]
    work += [("decoded length", length, decode, (length, threads)) for length in (16, 64, 256, 1000)]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for pairs in CORPUS:
            of_size = Path(folder, str(pairs))
            of_size.mkdir()
            write_corpus(pairs, directory, of_size)
            work += [(f"pairs: {function.__name__}", pairs, function, (directory, of_size)) for function in STAGES]
        for name, size, function, arguments in track(work, "measuring", console=Console(stderr=True)):
            rows.append({"series": name, "size": size} | alone(function, *arguments, threads=threads))
            save(rows)
    for series, shown, exponents in curves(rows):
        for key, label in MEASURES.items():
            values = "  ".join(f"{size:,}: {value:,.3g}" for size, value in shown[key])
            print(f"{series:16} {label:13} exponent {exponents[key]:5.2f}   {values}")
    if picture:
        draw(rows, picture)
