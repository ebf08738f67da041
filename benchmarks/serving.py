"""Serving: requests a second and latency with 1, 8 and 64 clients, compared with the same model without a server.

An untrained model of the project, beam 5; every hypothesis has the mean length of the references, so that all do the
same work. The clients are threads of one process on the same machine, each with a connection that stays open.
"""

import http.client
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.common import PROJECT, Row, Setting, alone
from benchmarks.decoding import corpus_batches, fresh
from transformer import Translator
from transformer.inference.translator import BEAM
from transformer.machine import MachineSettings

CLIENTS = (1, 8, 64)
HEADERS = {"Content-Type": "application/json"}
WARM_UP = 8
# Seconds of each request; empty for the system "one call".
Latencies = list[float]


def sentences(setting: Setting, requests: int) -> tuple[list[str], int]:
    """Sentences of the test set, repeated if needed, and the mean length of their references."""
    batches = corpus_batches(setting.directory, 1000)
    texts = [text for batch, _, _ in batches for text in batch]
    step = len(texts) // 2 + 1  # mixes the sentences, which are sorted by length
    mixed = [texts[number * step % len(texts)] for number in range(requests)]
    return mixed, round(statistics.mean(length for _, _, length in batches))


@contextmanager
def serving(model: Path, setting: Setting, length: int) -> Iterator[int]:
    """The port of a server that runs as for users."""
    settings = ["--port", "0", "--no-page", "--device", setting.device, "--threads", str(setting.threads)]
    settings += ["--min-length", str(length), "--max-length", str(length)]
    command = [sys.executable, str(PROJECT / "scripts" / "serve.py"), "--checkpoint", str(model), *settings]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        port = next(int(match[1]) for match in (re.match(r"serving at .*:(\d+)/", line) for line in lines) if match)
        try:
            yield port
        finally:
            server.send_signal(signal.SIGTERM)


def timed(
    work: Callable[[Callable[[list[str]], list[str]]], Latencies], model: Path, length: int, setting: Setting
) -> tuple[float, Latencies]:
    translator = Translator.load(model, setting.device)
    translator.configure_torch(MachineSettings(setting.threads, None, None))
    search = replace(BEAM, min_length=length, max_length=length)
    for _ in range(WARM_UP):
        translator.translate(["Guten Morgen!"], search)
    started = time.perf_counter()
    latencies = work(lambda texts: translator.translate(texts, search))
    return time.perf_counter() - started, latencies


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def call(model: Path, texts: list[str], length: int, setting: Setting) -> tuple[float, Latencies]:
    """One text after another."""
    return timed(
        lambda translate: [seconds(lambda text=text: translate([text])) for text in texts], model, length, setting
    )


def call_once(model: Path, texts: list[str], length: int, setting: Setting) -> tuple[float, Latencies]:
    """All texts at once, in the best batches."""
    return timed(lambda translate: seconds(lambda: translate(texts)) and [], model, length, setting)


def request(connection: http.client.HTTPConnection, text: str) -> None:
    connection.request("POST", "/translate", json.dumps({"q": text, "source": "de", "target": "en"}), HEADERS)
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise RuntimeError(answer.decode())


def ask(port: int, texts: list[str], clients: int) -> tuple[float, Latencies]:
    """The texts are distributed to clients; each client sends its next text when it has an answer."""

    def client(number: int) -> Latencies:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        return [seconds(lambda text=text: request(connection, text)) for text in texts[number::clients]]

    for text in texts[:WARM_UP]:
        request(http.client.HTTPConnection("127.0.0.1", port), text)
    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        latencies = [second for own in pool.map(client, range(clients)) for second in own]
        return time.perf_counter() - started, latencies


def main(setting: Setting, requests: int, runs: int) -> list[Row]:
    """Prints a table of the medians over `runs` turns and returns its rows."""
    texts, length = sentences(setting, requests)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "fresh.safetensors")
        fresh(setting).save(model)
        with serving(model, setting, length) as port:
            cases: dict[str, Callable[[], tuple[float, Latencies]]] = {
                "alone": lambda: alone(call, model, texts, length, setting, threads=setting.threads),
                "one call": lambda: alone(call_once, model, texts, length, setting, threads=setting.threads),
            } | {f"server, {clients} clients": lambda clients=clients: ask(port, texts, clients) for clients in CLIENTS}
            measured: dict[str, list[tuple[float, Latencies]]] = {name: [] for name in cases}
            for _ in range(runs):
                for name, measure in cases.items():
                    measured[name].append(measure())
    rows: list[Row] = []
    for name, turns in measured.items():
        row: Row = {"system": name, "requests_per_second": statistics.median(requests / total for total, _ in turns)}
        seconds = sorted(second for _, latencies in turns for second in latencies)
        for percent in (50, 99) if seconds else ():
            row[f"p{percent}_ms"] = 1000 * seconds[min(len(seconds) - 1, len(seconds) * percent // 100)]
        rows.append(row)
    table = Table("system", "requests / s", "p50 ms", "p99 ms", box=SIMPLE)
    for row in rows:
        latencies = (f"{row[key]:,.0f}" if key in row else "" for key in ("p50_ms", "p99_ms"))
        table.add_row(row["system"], f"{row['requests_per_second']:,.1f}", *latencies)
    Console().print(table)
    return rows
