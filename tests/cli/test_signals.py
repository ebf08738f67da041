"""A signal ends a script with one line at any moment; training saves first."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cases import others_long
from tests.cli.tiny import TINY, few_pairs
from tests.processes import posix_only
from tests.reliability.children import small_translator
from tests.scripts.running import PROJECT, start
from transformer.signals import SIGNALS, Interrupted, SignalHandler

pytestmark = posix_only

# Sends itself a signal when a package is imported, and then continues as a script.
EARLY = """
import runpy, signal, sys
number, package, *sys.argv = sys.argv[1:]
class Sender:
    def find_spec(self, name, *rest):
        if name == package:
            sys.meta_path.remove(self)
            signal.raise_signal(int(number))
sys.meta_path.insert(0, Sender())
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("script", "package"), others_long([("translate --checkpoint x text", "torch"), ("train", "lightning")])
)
def test_a_signal_while_a_script_imports_ends_it_in_one_line(script: str, package: str, tmp_path: Path) -> None:
    small_translator().save(tmp_path / "x")
    name, *typed = script.split()
    command = [sys.executable, "-c", EARLY, str(int(signal.SIGINT)), package, f"{PROJECT}/scripts/{name}.py", *typed]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "stopped by Ctrl-C\n")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


ENDLESS = [*TINY, "trainer.max_steps=100000", "training.validate_every=100000"]


def test_ctrl_c_ends_a_training_in_one_line_with_the_command_to_continue(tmp_path: Path) -> None:
    started = start("train", *ENDLESS, "hydra.run.dir=run", cwd=few_pairs(tmp_path))
    started.wait_for("cpu: ")
    started.send_signal(signal.SIGINT)
    done = started.wait()
    assert (done.returncode, done.stdout) == (128 + signal.SIGINT, "")
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("stopped")
    assert "by Ctrl-C; " in last
    assert last.endswith("resume=run") == (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()


@pytest.mark.long
def test_a_signal_ends_a_sweep_with_the_trial_that_runs(tmp_path: Path) -> None:
    started = start("train", "-m", *ENDLESS, "hydra.sweep.dir=sweep", "seed=1,2", cwd=few_pairs(tmp_path))
    started.wait_for("cpu: ")
    started.send_signal(signal.SIGTERM)
    done = started.wait()
    assert done.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in done.stderr
    assert "by SIGTERM" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "sweep" / "1").exists()


class Weights:
    """An object that torch converts to a tensor; the signal comes during that."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> float:
        signal.raise_signal(signal.SIGTERM)
        return 0.0


def test_a_signal_while_torch_reads_is_no_error_of_what_it_reads() -> None:
    with pytest.raises(Interrupted, match="stopped by SIGTERM"), SignalHandler():
        torch.tensor(Weights())


def test_a_signal_that_a_library_made_another_error_of_was_a_signal() -> None:
    with pytest.raises(Interrupted, match="stopped by SIGTERM"), SignalHandler():  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:
            raise ValueError("the file is damaged") from None


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SignalHandler():
            signal.raise_signal(signal.SIGINT)  # ignored, as in commands that a shell script starts with &
            with pytest.raises(Interrupted, match="stopped by SIGTERM"):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_within_deferred_the_first_signal_waits_and_the_second_ends_the_program() -> None:
    with SignalHandler() as signals:
        with signals.deferred():
            signal.raise_signal(signal.SIGTERM)
            assert signals.received == signal.SIGTERM
            with pytest.raises(Interrupted, match="stopped at once, without saving, by Ctrl-C"):
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted, match="stopped by SIGTERM"):
            signal.raise_signal(signal.SIGTERM)


# Both signals would raise Interrupted; within at_once they end the process directly.
AT_ONCE = """
import signal, sys
from transformer.signals import Interrupted, SignalHandler
with SignalHandler() as signals:
    try:
        with signals.at_once():
            pass
        signal.raise_signal(int(sys.argv[1]))
    except Interrupted:
        print("raised", flush=True)
    with signals.at_once():
        signal.raise_signal(int(sys.argv[1]))
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_within_at_once_a_signal_ends_the_process_and_after_it_is_raised_again(number: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE, str(int(number))], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-number, "raised\n")


def test_the_earlier_handler_is_restored_after_the_context() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with SignalHandler() as signals:
        with signals.at_once():
            assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_DFL] * len(SIGNALS)
        assert signal.SIG_DFL not in [signal.getsignal(number) for number in SIGNALS]
    assert [signal.getsignal(number) for number in SIGNALS] == before
