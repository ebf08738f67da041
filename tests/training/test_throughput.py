"""What a run says of its costs."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning import Callback, Trainer
from transformer.training.callbacks import throughput as throughput_module

from tests import processes
from tests.training.small import module_for, numbers_data, trainer_for
from transformer.training.throughput import Throughput, peak_memory

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_the_peak_of_memory_is_known_where_the_system_does_not_tell_it(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\nVmRSS:\t  2024 kB\n", encoding="utf-8")
    assert processes.peak_memory() <= peak_memory(tmp_path / "status") <= processes.peak_memory()
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t  2024 kB\nVmRSS:\t  1000 kB\n", encoding="utf-8")
    assert peak_memory(tmp_path / "status") == 2024 * 1024


def measure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float], **arguments: Any
) -> tuple[dict[str, float], list[int]]:
    """What a training says whose batches take so many seconds by their number and whose validations take an hour, and
    the target tokens of each step."""
    data, throughput, clock, tokens = numbers_data(folder), Throughput(), [0.0], [0]

    class Clock(Callback):
        def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, batch_index: int) -> None:
            clock[0] += seconds(trainer.fit_loop.epoch_loop.total_batch_idx + 1)

        def on_train_batch_end(self, trainer: Trainer, module: Any, *arguments: Any) -> None:
            if int(module.tokens_seen) > tokens[-1]:
                tokens.append(int(module.tokens_seen))

        def on_validation_start(self, trainer: Trainer, module: Any) -> None:
            clock[0] += 3600

    monkeypatch.setattr(throughput_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    often = {"check_val_every_n_epoch": None, "val_check_interval": 4, "limit_val_batches": 1}
    trainer = trainer_for(folder, callbacks=[Clock(), throughput], **(often | arguments))
    trainer.fit(module_for(data), datamodule=data)
    return throughput.measured(trainer), [after - before for before, after in pairwise(tokens)]


def test_the_time_of_a_step_is_that_after_the_warm_up_and_without_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, tokens = measure(tmp_path, monkeypatch, lambda batch: 10.0 if batch <= 6 else 2.0, max_steps=12)
    assert said["ms/step"] == 2000
    # Steps 5 and 9 follow a validation and are not measured: of the others the warm-up is 1 to 4, 6 and 7.
    counted = [tokens[step - 1] for step in (8, 10, 11, 12)]
    assert said["tokens/s"] == round(sum(counted) / 8)


def test_a_step_of_several_batches_takes_the_time_of_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, tokens = measure(
        tmp_path, monkeypatch, lambda batch: 2.0, max_steps=8, accumulate_grad_batches=2, limit_val_batches=0
    )
    assert said["ms/step"] == 4000
    assert said["tokens/s"] == round(sum(tokens[6:]) / 8)


def test_a_run_of_few_steps_has_the_time_of_its_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, _ = measure(tmp_path, monkeypatch, float, max_steps=3)
    assert said["ms/step"] == 3000
