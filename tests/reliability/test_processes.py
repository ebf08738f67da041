"""Several processes give the results of one: the same step and scores; and if one fails, no other waits for it."""

import csv
import json
import os
import random
import re
import signal
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from tests.data.corpora import write
from tests.processes import posix_only
from tests.reliability import report, trials
from tests.reliability.children import in_processes
from tests.reliability.runs import CAUSES, corpus, settings, train, trouble
from tests.scripts.running import PROJECT, Run, ok
from tests.training.small import fabric_for, module_for, training_for
from transformer import Translator
from transformer.cli.errors import report as report_error
from transformer.config import from_dict
from transformer.data.batching import Batch, PairDataset, TokenBudgetSampler
from transformer.data.datamodule import TranslationData
from transformer.data.tokenizer import PAD
from transformer.evaluation.evaluate import evaluate
from transformer.evaluation.metrics import METRICS
from transformer.model.masks import padding_mask
from transformer.training.config import RunSettings

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), posix_only]
SEVERAL = {"trainer__devices": 2, "trainer__strategy": "ddp", "training__samples": 0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of `runs`, with an odd number of sentences to score."""
    folder = corpus(tmp_path_factory.mktemp("home"))
    for name, count in (("validation", 41), ("train", 29)):
        for language in ("de", "en"):
            lines = (folder / f"{name}.{language}").read_text(encoding="utf-8").splitlines()[:count]
            write(folder, f"{name if name == 'validation' else 'test'}.{language}", lines)
    return folder


def settings_of(plain: dict[str, Any]) -> RunSettings:
    return from_dict(RunSettings, {key: value for key, value in plain.items() if key != "model"}, "")


def data_of(plain: dict[str, Any]) -> TranslationData:
    chosen = settings_of(plain)
    return TranslationData(chosen.data, chosen.tokenizer, chosen.seed)


def batches(plain: dict[str, Any]) -> list[Batch]:
    """Batches of the corpus, all with different numbers of tokens."""
    found: dict[int, Batch] = {}
    for batch in data_of(plain).loader("train"):
        found.setdefault(int((batch.labels != PAD).sum()), batch)
    return list(found.values())


def union(batches: list[Batch]) -> Batch:
    """All pairs of the batches in one."""

    def rows(name: str) -> torch.Tensor:
        sequences = [row for batch in batches for row in getattr(batch, name)]
        return pad_sequence(sequences, batch_first=True, padding_value=PAD)

    source = rows("source")
    indices = torch.cat([batch.indices for batch in batches])
    return Batch(source, padding_mask(source, PAD), rows("inputs"), rows("labels"), indices)


def steps(rank: int, folder: Path, plain: dict[str, Any], world: int, parts: list[list[Batch]]) -> None:
    """The weights after one optimizer step of one of `world` processes, on its share of each of the `parts`."""
    # Adam makes a full step even if a gradient is only a rounding error, as that of a key's bias.
    no_bias = {f"{place}_attention__bias": False for place in ("encoder__self", "decoder__self", "decoder__cross")}
    weights = []
    for part in parts:
        plain_data, share = data_of(plain), part[rank::world]
        module = module_for(plain_data, **no_bias)
        training = training_for(module, plain_data, folder, processes=world, accumulate_grad_batches=len(share))
        training.module.train()
        training.step(share)
        named = module.model.named_parameters()
        weights.append({name: (weight.detach(), weight.grad) for name, weight in named})
    torch.save(weights, folder / f"{world}.{rank}.pt")


def test_a_step_of_two_processes_is_that_of_one_on_the_union_of_their_batches(home: Path, tmp_path: Path) -> None:
    plain = settings(home, data__batch_tokens=60)
    several = batches(plain)
    parts = [several[:2], several[:4]]
    assert [len(part) for part in parts] == [2, 4]
    assert in_processes(2, steps, tmp_path, plain, 2, parts) == [0, 0]
    steps(0, tmp_path, plain, 1, [[union(part)] for part in parts])
    found = (torch.load(tmp_path / name) for name in ("2.0.pt", "2.1.pt", "1.0.pt"))
    for first, second, alone in zip(*found, strict=True):
        for name, (weight, gradient) in alone.items():
            assert torch.equal(first[name][0], second[name][0]), name
            torch.testing.assert_close(first[name][1], gradient, atol=1e-6, rtol=1e-5)
            # Adam makes a full step, 2,500 times the tolerance, even if a gradient is only a rounding error.
            counts = gradient.abs() > 1e-6
            assert counts.float().mean() > 0.5, name
            torch.testing.assert_close(first[name][0][counts], weight[counts], atol=1e-6, rtol=0)
    report("a step of two processes is that of one", len(parts), [])


def scored(rank: int, folder: Path, plain: dict[str, Any], world: int, checkpoint: Path) -> None:
    """Scores a translator in one of `world` processes; writes the results that it has then."""
    fabric_for(world)
    chosen, data, translator = settings_of(plain), data_of(plain), Translator.load(checkpoint)
    content = {}
    for name in ("validation", "test"):
        calls: list[tuple[int, int]] = []
        found = evaluate(
            translator,
            data.text_pairs(name),
            chosen.search,
            METRICS,
            with_loss=True,
            on_progress=lambda done, total, calls=calls: calls.append((done, total)),  # type: ignore[misc]
        )
        content[name] = {"hypotheses": found.hypotheses, "scores": found.scores.to_dict(), "loss": found.loss}
        assert calls[-1][0] == calls[-1][1]
    (folder / f"{world}.{rank}.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.long
def test_two_processes_score_a_translator_as_one_does(home: Path, tmp_path: Path) -> None:
    plain = settings(home, trainer__max_steps=60, training__validate_every=60)
    train(tmp_path / "run", plain)
    best = tmp_path / "run" / "checkpoints" / "best.ckpt"
    assert in_processes(2, scored, tmp_path, plain, 2, best) == [0, 0]
    scored(0, tmp_path, plain, 1, best)
    first, second, alone = (
        json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("2.0.json", "2.1.json", "1.0.json")
    )
    assert first == second
    for name, count in (("validation", 41), ("test", 29)):
        assert len(alone[name]["hypotheses"]) == count
        assert first[name]["hypotheses"] == alone[name]["hypotheses"]
        assert first[name]["scores"] == alone[name]["scores"]
        assert 1 < alone[name]["scores"]["bleu"] < 100
        # A sum of float32 in a different order.
        assert first[name]["loss"] == pytest.approx(alone[name]["loss"], rel=1e-5)
    report("translations and BLEU of two processes are those of one", 41 + 29, [])


def test_whatever_the_corpus_processes_get_equally_many_batches_and_no_pair_twice(home: Path) -> None:
    chance, lost, tried = random.Random(8), [], trials(100, 1000)
    split = data_of(settings(home)).split("train")
    dataset = PairDataset(split)
    for number in range(tried):
        world, accumulated, tokens = chance.randint(1, 8), chance.randint(1, 4), chance.randint(20, 400)
        samplers = [TokenBudgetSampler(split, tokens, number, True, rank, world, accumulated) for rank in range(world)]
        dealt = [[dataset[index].indices.tolist() for index in sampler] for sampler in samplers]
        counts = Counter(pair for share in dealt for batch in share for pair in batch)
        even = len({len(share) for share in dealt}) == 1 and len(dealt[0]) % accumulated == 0
        if not even or counts != Counter(range(len(split))):
            lost.append(f"{number}: {world} processes, {accumulated} batches a step, {tokens} tokens")
    report("equally many batches a process, every pair once", tried, lost)


def failing(rank: int, folder: Path, plain: dict[str, Any], guilty: int, cause: str, batch: int) -> None:
    """One of several processes: the guilty one fails in the middle of a batch, while the others wait for it."""
    sys.stderr = (folder / f"said.{rank}").open("w", buffering=1)
    status = 0
    try:
        with trouble(batch, CAUSES[cause if rank == guilty else "none"]):
            train(folder, plain)
    except Exception as error:
        report_error(error, debug=False)
        status = 1
    os._exit(status)


SHOWN = "--debug, for train debug=true, shows where"
LEFT = "another process has ended before its work was done"
# The number of processes, the one that fails, and the kind of failure.
FAILURES = [(*one, cause) for one in ((2, 0), (2, 1), (3, 0), (3, 2)) for cause in ("crash", "kill")]


@pytest.mark.long
def test_when_one_process_fails_the_others_end_and_say_why(home: Path, tmp_path: Path) -> None:
    lost, chance, chosen = [], random.Random(9), trials([(2, 1, "crash"), (2, 0, "kill")], 4 * FAILURES)
    for number, (world, guilty, cause) in enumerate(chosen):
        folder, batch = tmp_path / f"{number}", chance.randint(1, 8)
        folder.mkdir()
        plain = settings(home, **SEVERAL | {"trainer__devices": world})
        ends = in_processes(world, failing, folder, plain, guilty, cause, batch)
        said = [(folder / f"said.{rank}").read_text(encoding="utf-8").splitlines() for rank in range(world)]
        errors = [[line for line in lines if "error" in line or "Traceback" in line] for lines in said]
        where = [f"[rank {rank}] " if rank else "" for rank in range(world)]
        expected = [f"{where[rank]}error: {LEFT}" for rank in range(world)]
        expected[guilty] = f"{where[guilty]}error: a crash ({SHOWN})"
        right = [
            len(lines) == (rank != guilty or cause == "crash")
            and all(line.startswith(expected[rank]) for line in lines)
            for rank, lines in enumerate(errors)
        ]
        if ends != [-9 if cause == "kill" and rank == guilty else 1 for rank in range(world)] or not all(right):
            lost.append(f"{number}: {chosen[number]} at batch {batch}: {ends}, {errors}")
    report("a failing process ends the others", len(chosen), lost)


def script_arguments(home: Path, run: Path, *arguments: str) -> list[str]:
    """Arguments of scripts/train.py for 4 steps on the corpus of `runs`, with nothing random in a step."""
    dropouts = "model feed_forward encoder.self_attention decoder.self_attention decoder.cross_attention"
    corpora = [f"data.{name}={home / name}" for name in ("train", "validation", "test")]
    return [
        *("data=files", *corpora, "data.source_language=de", "data.target_language=en", f"data.cache={home / 'cache'}"),
        *("data.batch_tokens=100", "tokenizer=word", "search=greedy", "model.dim=16", "model.feed_forward.dim=24"),
        *("model.layers=1", "model.heads=2", "machine.matmul_precision=highest", "model.dropout=0"),
        "trainer.precision=32-true",
        *(f"model.{place}.dropout=0" for place in dropouts.split()[1:]),
        *("training.learning_rate=0.03", "training.warmup_steps=1", "training.validate_every=2", "training.samples=1"),
        *("trainer.max_steps=4", "loggers=[csv]", f"hydra.run.dir={run}", *arguments),
    ]


DDP = ["trainer=ddp", "trainer.accelerator=cpu"]
TRAIN = str(PROJECT / "scripts" / "train.py")
FAILING = str(Path(__file__).with_name("failing.py"))
# Their processes need this to find our modules; it also makes them draw bars.
TERMINAL = {"PYTHONPATH": str(PROJECT), "TTY_COMPATIBLE": "1", "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def node(launcher: str, number: int, port: int, arguments: list[str], folder: Path) -> Run:
    """One of two nodes on this machine, each with one process, started by torchrun or as by srun."""
    addresses = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if launcher == "torchrun":
        nodes = ["--nnodes=2", "--nproc-per-node=1", f"--node-rank={number}"]
        nodes += ["--master-addr=127.0.0.1", f"--master-port={port}"]
        # Its processes are forks too, so they do not import torch.
        forks = ["--run-path", "--start-method=fork"]
        return Run("-m", "torch.distributed.run", *nodes, *forks, TRAIN, *arguments, cwd=folder, environment=TERMINAL)
    job = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NNODES": "2", "SLURM_NTASKS": "2"}
    task = {
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_PROCID": f"{number}",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": f"{number}",
    }
    return Run(TRAIN, *arguments, cwd=folder, environment=TERMINAL | job | task | addresses)


@pytest.fixture(scope="module")
def alone(home: Path) -> Path:
    """A run of one process with two batches for each step."""
    arguments = script_arguments(home, home / "alone", "trainer=cpu", "trainer.accumulate_grad_batches=2")
    ok("train", *arguments, cwd=home)
    return home / "alone"


def results(run: Path) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of all validations, and the weights."""
    with (run / "metrics.csv").open() as file:
        losses = [float(row["validation/loss"]) for row in csv.DictReader(file) if row["validation/loss"]]
    return losses, torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]


@pytest.mark.long
@pytest.mark.parametrize("launcher", trials(["torchrun"], ["torchrun", "slurm"]))
def test_two_nodes_make_one_run_that_equals_the_run_of_one_process(
    home: Path, alone: Path, tmp_path: Path, launcher: str
) -> None:
    arguments = script_arguments(home, tmp_path / "run", *DDP, "trainer.devices=1", "trainer.num_nodes=2")
    port = free_port()
    nodes = [node(launcher, number, port, arguments, tmp_path) for number in (0, 1)]
    first, second = (started.wait() for started in nodes)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    # One node prints for both, with its own bar; all files are in one folder.
    assert (second.stdout, second.stderr) == ("", "")
    assert first.stdout.count("test: BLEU") == first.stdout.count("Next:") == 1
    assert len(re.findall("step [24] of 4 ", first.stderr)) == 2
    assert "training \x1b" in first.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted(path.name for path in alone.iterdir())
    (losses, weights), (expected, expected_weights) = results(tmp_path / "run"), results(alone)
    assert losses == pytest.approx(expected, rel=1e-5)
    for name, weight in expected_weights.items():
        if "key.bias" not in name:  # its gradient is only a rounding error, and Adam makes a full step
            torch.testing.assert_close(weights[name], weight, atol=1e-4, rtol=1e-3, msg=name)
    report(f"two nodes make one run: {launcher}", 1, [])


@pytest.mark.long
def test_a_run_that_waits_for_another_node_says_so_and_ends_at_a_signal(home: Path, tmp_path: Path) -> None:
    arguments = script_arguments(home, tmp_path / "run", *DDP, "trainer.devices=1", "trainer.num_nodes=2")
    waiting = Run(TRAIN, *arguments, cwd=tmp_path, environment=TERMINAL | {"MASTER_PORT": str(free_port())})
    waiting.wait_for("waiting for the processes of all 2 nodes")
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait().returncode == -signal.SIGTERM


@pytest.mark.long
@pytest.mark.parametrize(
    ("launcher", "guilty", "cause", "said"),
    trials(
        [
            ("fabric", 1, "crash", f"[rank 1] error: a crash ({SHOWN})"),
            ("fabric", 1, "nan", "error: the loss is nan at step 1"),
        ],
        [
            ("fabric", 1, "crash", f"[rank 1] error: a crash ({SHOWN})"),
            ("fabric", 1, "kill", f"error: {LEFT}"),
            ("fabric", 0, "crash", f"error: a crash ({SHOWN})"),
            ("fabric", 1, "nan", "error: the loss is nan at step 1"),
            ("torchrun", 1, "crash", f"[rank 1] error: a crash ({SHOWN})"),
            ("torchrun", 1, "nan", "error: the loss is nan at step 1"),
        ],
    ),
)
def test_a_failing_process_ends_the_script(
    home: Path, tmp_path: Path, launcher: str, guilty: int, cause: str, said: str
) -> None:
    command = [FAILING, *script_arguments(home, tmp_path / "run", *DDP, "trainer.devices=2")]
    if launcher == "torchrun":
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *command]
    done = Run(*command, cwd=tmp_path, environment=TERMINAL | {"FAILING": f"{guilty} 2 {cause}"}).wait()
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    [mine, *others] = sorted(errors, key=lambda line: said not in line)
    assert said in mine
    # Fabric may end the others before they could print.
    assert all(LEFT in line for line in others), errors
    report(f"a failing process ends the script: {launcher}, process {guilty}, {cause}", 1, [])
