"""Other programs that take the processors from a run's threads are named once, with what helps."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformer.training.callbacks import contention as module
from transformer.training.callbacks.contention import Contention, seconds_waited

from tests.reliability.runs import corpus, settings, train
from tests.training.small import module_for, numbers_data
from transformer.device import available_cores
from transformer.training.summary import show_run

pytestmark = pytest.mark.skipif(not seconds_waited(), reason="needs a Linux that counts how long threads wait")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def shared_processor() -> Iterator[None]:
    """This thread shares one processor with another program that never rests."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        yield
        other.kill()
    os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("shared_processor", "two_threads")
def test_another_program_on_the_same_processor_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contention, "min_seconds", 0.3)
    contention, notes = Contention(), []
    end = time.monotonic() + 60
    while not notes and time.monotonic() < end:
        notes += filter(None, [contention.note()])
    assert len(notes) == 1
    assert notes[0].startswith("other programs use the same processors: in the last ")
    assert notes[0].endswith("machine.threads=1 may be faster, also to resume with")
    time.sleep(0.3)
    assert contention.note() is None


@pytest.mark.usefixtures("shared_processor")
def test_a_thread_that_never_sleeps_waits_for_its_turn_beside_another_program() -> None:
    thread = str(threading.get_native_id())
    before = seconds_waited()[thread]
    end = time.monotonic() + 60
    while seconds_waited()[thread] == before and time.monotonic() < end:
        pass
    assert seconds_waited()[thread] > before


def test_the_second_number_of_schedstat_is_the_nanoseconds_that_a_thread_waited(tmp_path: Path) -> None:
    # https://docs.kernel.org/scheduler/sched-stats.html: time on the processor, time waiting for it, time slices
    for thread, line in (("7", "9000000000 2500000000 31\n"), ("8", "5 0 1\n"), ("9", "")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(line, encoding="utf-8")
    (tmp_path / "10").mkdir()  # it has ended, as the one without a line
    assert seconds_waited(tmp_path) == {"7": 2.5, "8": 0.0}


@pytest.mark.usefixtures("two_threads")
def test_the_thread_that_waited_longest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waited = [100.0], {"1": 5.0, "2": 7.0}
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "seconds_waited", lambda: dict(waited))
    contention = Contention()
    clock[0], waited["1"], waited["2"] = 120.0, 7.0, 8.0
    assert contention.note() is None, "10 %"
    clock[0], waited["1"], waited["3"] = 139.0, 15.0, 99.0
    assert contention.note() is None, "too soon"
    clock[0] = 140.0
    assert "in the last 20 s training waited for one in 40% of the time" in str(contention.note()), "3 is new"
    clock[0], waited["1"] = 160.0, 35.0
    assert contention.note() is None, "once"


def test_a_single_thread_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contention, "min_seconds", 0.0)
    monkeypatch.setattr(Contention, "min_share", 0.0)
    contention, before = Contention(), torch.get_num_threads()
    torch.set_num_threads(1)
    assert contention.note() is None
    torch.set_num_threads(4)
    assert "machine.threads=2 may be faster" in str(contention.note()), "half of them"
    torch.set_num_threads(before)


@pytest.mark.long
@pytest.mark.usefixtures("two_threads")
def test_a_run_says_it_between_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Contention, "min_seconds", 0.0)
    monkeypatch.setattr(Contention, "min_share", 0.0)
    # Two threads wait for each other: without validations, of which the note knows nothing.
    unvalidated = {"trainer__limit_val_batches": 0, "training__averaging__kind": "none", "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=3, machine__threads=2, **unvalidated))
    assert capsys.readouterr().err.count("machine.threads=1 may be faster") == 1


def test_more_processes_than_cores_are_told_before_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, cores = numbers_data(tmp_path), available_cores()
    assert cores <= (os.cpu_count() or 1)
    translator = module_for(data).translator
    show_run(data, translator, "cpu", cores, init_from=None)
    assert "wait for each other" not in capsys.readouterr().err
    show_run(data, translator, "cpu", cores + 1, init_from=None)
    said = f"{cores + 1} processes share {cores} cores and wait for each other: lower trainer.devices"
    assert said in capsys.readouterr().err.splitlines()
