"""Other programs that take the processors from a run's threads are named once, with what helps."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.reliability.runs import corpus, settings, train
from transformer.training.callbacks.contention import Contention, seconds_waited

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
    monkeypatch.setattr(Contention, "seconds", 0.3)
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
def test_a_thread_that_never_sleeps_waits_for_what_it_does_not_compute() -> None:
    thread = str(threading.get_native_id())
    waited, began, computed = seconds_waited()[thread], time.monotonic(), time.thread_time()
    while time.monotonic() - began < 0.6:
        pass
    passed, computed = time.monotonic() - began, time.thread_time() - computed
    assert seconds_waited()[thread] - waited == pytest.approx(passed - computed, abs=0.1 * passed)


def test_a_single_thread_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contention, "seconds", 0.0)
    monkeypatch.setattr(Contention, "share", 0.0)
    contention, before = Contention(), torch.get_num_threads()
    torch.set_num_threads(1)
    assert contention.note() is None
    torch.set_num_threads(2)
    assert contention.note() is not None
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_run_says_it_between_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Contention, "seconds", 0.0)
    monkeypatch.setattr(Contention, "share", 0.0)
    # Two threads wait for each other: without validations, of which the note knows nothing.
    unvalidated = {"trainer__limit_val_batches": 0, "training__averaging__kind": "none", "test": False}
    train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=3, machine__threads=2, **unvalidated))
    assert capsys.readouterr().err.count("machine.threads=1 may be faster") == 1
