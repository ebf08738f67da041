"""The costs that a run reports."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests import processes
from transformer.training import throughput as throughput_module
from transformer.training.throughput import Throughput, peak_memory


def test_the_peak_of_memory_is_known_if_the_system_does_not_give_it(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\nVmRSS:\t  2024 kB\n", encoding="utf-8")
    assert processes.peak_memory() <= peak_memory(tmp_path / "status") <= processes.peak_memory()
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t  2024 kB\nVmRSS:\t  1000 kB\n", encoding="utf-8")
    assert peak_memory(tmp_path / "status") == 2024 * 1024


def measure(
    monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float], steps: int, validate_every: int = 100
) -> dict[str, float]:
    """The measurement if step n takes `seconds(n)` and has 10 n tokens, and a validation takes an hour."""
    throughput, clock = Throughput(), [0.0]
    monkeypatch.setattr(throughput_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    throughput.start()
    for step in range(1, steps + 1):
        clock[0] += seconds(step)
        throughput.after_step(torch.tensor(10 * step))
        if step % validate_every == 0:
            clock[0] += 3600
            throughput.start()
    return throughput.measured(torch.device("cpu"))


def test_the_time_of_a_step_is_that_after_the_warm_up_and_without_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measure(monkeypatch, lambda step: 10.0 if step <= 6 else 2.0, steps=12, validate_every=4)
    assert found["ms/step"] == 2000
    assert found["tokens/s"] == round(sum(10 * step for step in range(7, 13)) / 12)


def test_a_run_of_few_steps_has_the_time_of_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure(monkeypatch, float, steps=3)["ms/step"] == 3000


def test_a_run_without_a_step_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure(monkeypatch, float, steps=0).keys() == {"peak MB"}
