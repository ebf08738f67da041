"""A signal ends a run within one step or validation batch, and the run is saved; a continued run equals one that was
never stopped, bit for bit."""

import os
import random
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch.nn.modules.module import register_module_forward_hook

from tests.processes import posix_only, shell_words
from tests.reliability import report, trials
from tests.reliability.children import ChildDiedError, in_child
from tests.reliability.runs import assert_equal_runs, corpus, last, position, settings, term, train, trouble
from tests.scripts.running import SMALL, script, start
from transformer.inference.translator import Translator
from transformer.model.transformer import Decoder
from transformer.signals import SIGNALS, Interrupted, SignalHandler

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize(("batch", "steps", "validated"), [(1, 1, -1), (7, 6, -1), (8, 7, 6)])
def test_a_signal_ends_a_run_within_a_step_or_a_validation(
    tmp_path: Path, batch: int, steps: int, validated: int
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(Interrupted, match=f"stopped and saved at step {steps}, by SIGTERM"),
        trouble(batch, term),
        # The next batch is not begun.
        trouble(batch + 1, lambda _: pytest.fail("went on")),
    ):
        train(tmp_path / "run", settings(corpus(tmp_path)))
    assert (position(tmp_path / "run")["step"], position(tmp_path / "run")["validated_step"]) == (steps, validated)
    assert not (tmp_path / "run" / "hypotheses.test.txt").exists()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_after_the_last_validation_ends_a_run_before_its_test(tmp_path: Path) -> None:
    plain = settings(corpus(tmp_path), trainer__max_steps=1)
    with pytest.raises(Interrupted, match="stopped and saved at step 1, by SIGTERM"):
        train(tmp_path / "run", plain, on_validation=[lambda _: signal.raise_signal(signal.SIGTERM)])
    assert not (tmp_path / "run" / "test.json").exists()
    train(tmp_path / "run", plain, last(tmp_path / "run"))
    assert (tmp_path / "run" / "test.json").exists()


def test_a_signal_after_the_last_step_is_reported_too(tmp_path: Path) -> None:
    def draw(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    with SignalHandler(), pytest.raises(Interrupted, match="stopped by SIGTERM"):
        train(tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=1), at_end=[draw])
    assert (tmp_path / "run" / "test.json").exists()


@pytest.mark.long
def test_a_run_stopped_in_its_test_has_left_its_model(tmp_path: Path) -> None:
    run, plain = tmp_path / "run", settings(corpus(tmp_path), trainer__max_steps=1)

    def in_a_search(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        # After the only validation, single steps of a decoder belong to the test.
        if isinstance(module, Decoder) and inputs[0].size(1) == 1 and last(run):
            signal.raise_signal(signal.SIGTERM)

    hook = register_module_forward_hook(in_a_search)
    try:
        with pytest.raises(Interrupted, match="by SIGTERM"):
            train(run, plain)
    finally:
        hook.remove()
    assert not (run / "test.json").exists()
    stopped = Translator.load(run / "translator.safetensors")
    train(run, plain, last(run))
    assert (run / "test.json").exists()
    whole = Translator.load(run / "translator.safetensors")
    assert stopped.alignment == whole.alignment
    assert all(map(torch.equal, stopped.model.parameters(), whole.model.parameters()))


def signalled(folder: Path, plain: dict[str, Any], after: float, number: int) -> bool:
    """Trains until the signal, `after` seconds after the first batch; returns whether it came in time."""
    timer = threading.Timer(after, os.kill, (os.getpid(), number))
    earlier = signal.signal(number, lambda *_: None)  # it may come after the end
    try:
        with trouble(1, lambda _: timer.start()):
            train(folder, plain, last(folder))
    except Interrupted:
        return True
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        signal.signal(number, earlier)
    return False


@pytest.mark.long
@posix_only
def test_signals_at_random_moments_leave_the_result_as_it_is(tmp_path: Path) -> None:
    plain = settings(corpus(tmp_path), training__validate_every=8, loggers=["csv"])
    started = time.monotonic()
    train(tmp_path / "whole", plain)
    duration = time.monotonic() - started
    wanted, seed = trials(len(SIGNALS), 200), random.randrange(1 << 32)
    moments, stops, runs, lost = random.Random(seed), 0, 0, []
    while stops < wanted:
        # Stopped again and again until the run ends, or until the last signal.
        folder, runs = tmp_path / f"{runs}", runs + 1
        while stops < wanted:
            number = SIGNALS[stops % len(SIGNALS)]
            if not signalled(folder, plain, moments.random() * duration / 8, number):
                break
            stops += 1
        train(folder, plain, last(folder))
        try:
            assert_equal_runs(folder, tmp_path / "whole")
        except AssertionError as error:
            lost.append(f"seed {seed}, run {runs}: {error}")
    report("signals at random moments", stops, lost)


def train_until(name: str, folder: Path, plain: dict[str, Any]) -> None:
    """Trains, or continues, and is killed after the file `name` was written and before it gets its name."""
    torch.set_num_threads(1)
    replace = Path.replace

    def kill_at(self: Path, target: Path) -> Path:
        if target.name == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    Path.replace = kill_at  # type: ignore[method-assign, assignment]
    train(folder, plain, last(folder))


@pytest.mark.long
@posix_only
def test_a_run_killed_in_its_last_phase_again_and_again_ends_like_a_whole_one(tmp_path: Path) -> None:
    plain, run = settings(corpus(tmp_path), loggers=["csv"]), tmp_path / "run"
    train(tmp_path / "whole", plain)
    all_files = ("translator.safetensors", "hypotheses.test.txt", "test.json", "README.md")
    for name in trials(all_files[::3], all_files):
        with pytest.raises(ChildDiedError, match="ended with -9"):
            in_child(train_until, name, run, plain)
        assert not list(run.rglob(name))
    train(run, plain, last(run))
    assert_equal_runs(run, tmp_path / "whole")
    files = [{path.relative_to(folder) for path in folder.rglob("*")} for folder in (run, tmp_path / "whole")]
    assert files[0] == files[1]
    # Their bytes may differ, because safetensors writes the metadata in any order.
    saved, whole = (safe_open(folder / "translator.safetensors", "pt") for folder in (run, tmp_path / "whole"))
    assert saved.metadata() == whole.metadata()
    assert saved.keys() == whole.keys()
    assert all(torch.equal(saved.get_tensor(name), whole.get_tensor(name)) for name in saved.keys())  # noqa: SIM118


@posix_only
def test_the_script_prints_a_command_that_continues_the_run(tmp_path: Path) -> None:
    chosen = ["trainer.max_steps=100000", "training.validate_every=2", "loggers=[]", "training.samples=0"]
    quick = ["trainer.limit_val_batches=1", "trainer.limit_test_batches=1", "search=greedy"]
    training = start("train", *SMALL, *chosen, *quick, "data.cache=cache", "hydra.run.dir=run", cwd=tmp_path)
    training.wait_for("step 4 of")
    training.send_signal(signal.SIGTERM)
    stopped = training.wait()
    assert stopped.returncode == 128 + signal.SIGTERM
    last_line = stopped.stderr.splitlines()[-1]
    match = re.fullmatch(
        r"stopped and saved at step (\d+), by SIGTERM; continue with: python \S*train\.py (resume=run)", last_line
    )
    assert match, last_line
    steps = int(match[1]) + 1
    resumed = script("train", *shell_words(match[2]), f"trainer.max_steps={steps}", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"changed: trainer.max_steps={steps} (was 100000)" in resumed.stderr
    assert position(tmp_path / "run")["step"] == steps
