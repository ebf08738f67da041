"""Whatever asks a script to end does so in one line, from the first moment to the last; training saves before that."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cases import others_long
from tests.processes import posix_only
from tests.scripts.running import Run
from transformer.signals import SIGNALS, Interrupted, SignalHandler

pytestmark = posix_only

# Sends itself a signal as soon as a package is imported, and goes on as a script.
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


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_script_in_one_line(project: Path, tmp_path: Path, number: signal.Signals) -> None:
    started = Run(str(project / "train.py"), f"runs={tmp_path}", "name=slow", cwd=tmp_path)
    started.wait_for("started")
    started.send_signal(number)
    done = started.wait()
    line = f"stopped by {number.name}\n"
    assert (done.returncode, done.stderr) == (128 + number, f"a log line\nstarted\n{line}")


class Weights:
    """What torch makes a tensor of; the signal comes meanwhile."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> float:
        signal.raise_signal(signal.SIGTERM)
        return 0.0


def test_a_signal_while_torch_reads_is_no_error_of_what_it_reads() -> None:
    with pytest.raises(Interrupted, match="stopped by SIGTERM"), SignalHandler():
        torch.tensor(Weights())


@pytest.mark.parametrize(
    ("option", "line"), others_long([((), "stopped by SIGTERM"), (("-m",), "stopped")]), ids=["one", "sweep"]
)
def test_a_script_whose_signal_became_another_error_was_stopped(
    project: Path, tmp_path: Path, option: tuple[str, ...], line: str
) -> None:
    done = Run(str(project / "train.py"), *option, f"runs={tmp_path}", "name=swallowed", cwd=tmp_path).wait()
    assert done.returncode == (1 if option else 128 + signal.SIGTERM)  # the sweep itself had no signal
    assert done.stderr.splitlines()[-1] == line


@pytest.mark.parametrize("package", ["hydra", "omegaconf", "hydra.core.override_parser", "transformer.cli.sweeps"])
def test_a_signal_while_a_script_starts_ends_it_in_one_line(project: Path, tmp_path: Path, package: str) -> None:
    command = [sys.executable, "-c", EARLY, str(int(signal.SIGINT)), package, str(project / "train.py")]
    done = subprocess.run([*command, f"runs={tmp_path}/new"], capture_output=True, text=True, cwd=project)
    assert (done.returncode, done.stderr) == (130, "stopped by SIGINT\n")
    assert not list(tmp_path.iterdir())


def test_a_sweep_takes_the_trial_that_runs_with_it(project: Path, tmp_path: Path) -> None:
    started = Run(str(project / "train.py"), "-m", f"runs={tmp_path}", "name=slow", "cost=1,2", cwd=tmp_path)
    started.wait_for("started")
    started.send_signal(signal.SIGTERM)
    done = started.wait()
    assert done.returncode == 128 + signal.SIGTERM
    [sweep] = tmp_path.iterdir()
    of_sweep = f"stopped by SIGTERM; what its trials have left is in {sweep.name}"
    assert done.stderr.splitlines()[-2:] == ["stopped", of_sweep]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SignalHandler():
            signal.raise_signal(signal.SIGINT)  # as of what a shell script starts with &
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
            with pytest.raises(Interrupted, match="stopped at once, without saving, by SIGINT"):
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted, match="stopped by SIGTERM"):
            signal.raise_signal(signal.SIGTERM)


# Both signals would raise Interrupted; within at_once the system ends the process.
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


def test_a_handler_of_before_is_there_again_after_the_context() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with SignalHandler() as signals:
        with signals.at_once():
            assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_DFL] * len(SIGNALS)
        assert signal.SIG_DFL not in [signal.getsignal(number) for number in SIGNALS]
    assert [signal.getsignal(number) for number in SIGNALS] == before
