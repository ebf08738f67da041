"""Stages: finished ones are skipped, a begun one continues, and a signal reaches the command of a stage."""

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import posix_only
from transformer.cli.pipeline import COMMAND, Stage, run_stages
from transformer.config import UsageError
from transformer.files import exclusive_lock
from transformer.signals import Interrupted, SignalHandler


def stage(folder: Path, name: str, begin: str, resume: str = "raise SystemExit(9)") -> Stage:
    """A Python command in the folder; NAME.begun and NAME.done mark its progress."""
    start = f"from pathlib import Path; import os; os.chdir({str(folder)!r}); log = open('log', 'a'); "
    commands = ([sys.executable, "-c", f"{start}{code}"] for code in (begin, resume))
    return Stage(name, *commands, folder / f"{name}.begun", [folder / f"{name}.done"])


def done(name: str) -> str:
    return f"log.write('{name} '); Path('{name}.done').touch()"


def run(stages: list[Stage], folder: Path) -> None:
    """Each run first leaves a mark in the folder."""
    run_stages(stages, folder, (folder / "prepared").touch)


def test_finished_stages_are_skipped_and_begun_ones_continue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fails = "log.write('fails '); Path('second.begun').touch(); raise SystemExit(3)"
    # The first time it is killed, as by a system without memory.
    killed = "Path('killed').exists() or (Path('killed').touch(), log.write('killed '), log.close(), os.abort()); "
    stages = [
        stage(tmp_path, "first", done("first")),
        stage(tmp_path, "second", fails, killed + done("second")),
        stage(tmp_path, "third", done("third")),
    ]
    (tmp_path / COMMAND).write_text("[]", encoding="utf-8")  # a record in which no stage has begun
    for _ in range(2):
        with pytest.raises(ChildProcessError, match=r"second has failed: correct the error, then repeat the command"):
            run(stages, tmp_path)
    run(stages, tmp_path)
    assert (tmp_path / "log").read_text(encoding="utf-8") == "first fails killed second third "
    capsys.readouterr()
    run(stages, tmp_path)
    said = [f"{name}: already finished" for name in ("first", "second", "third")]
    assert capsys.readouterr().err.splitlines() == said
    (tmp_path / "prepared").unlink()
    with pytest.raises(UsageError, match=rf"{COMMAND} has other settings: repeat these, or give another"):
        run(stages[:2], tmp_path)
    for changed in ("{", "[" * 100_000, "7", "[1, 2, 3]", '[["ls"], [3], ["ls"]]'):
        (tmp_path / COMMAND).write_text(changed, encoding="utf-8")
        with pytest.raises(UsageError, match="has other settings: repeat these"):
            run(stages, tmp_path)
    assert not (tmp_path / "prepared").exists()


def test_a_folder_in_which_another_process_runs_stages_is_left_alone(tmp_path: Path) -> None:
    with (
        exclusive_lock(tmp_path / ".lock", "it"),
        pytest.raises(OSError, match=f"{re.escape(str(tmp_path))} is in use"),
    ):
        run([stage(tmp_path, "first", done("first"))], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {".lock"}  # on Windows no lock is left


def test_another_python_is_no_other_setting(tmp_path: Path) -> None:
    def training(python: str, *settings: str) -> Stage:
        command = [python, "-m", "transformer", "train", *settings]
        return Stage("train", command, command, tmp_path / "begun", [tmp_path / "finished"])

    (tmp_path / "finished").touch()
    run([training(str(tmp_path / "bin/python"), "seed=1")], tmp_path)
    run([training(str(tmp_path / "venv/bin/python3"), "seed=1")], tmp_path)
    with pytest.raises(UsageError, match=r"\(train: before seed=1, now seed=2\)$"):
        run([training("python", "seed=2")], tmp_path)


@posix_only
def test_a_signal_reaches_the_command_which_ends_in_its_own_way(tmp_path: Path) -> None:
    waits = (
        "import signal, time; end = lambda *_: (log.write('saved'), log.close(), os._exit(143)); "
        "signal.signal(signal.SIGTERM, end); Path('waits.begun').touch(); time.sleep(600)"
    )
    waiting = stage(tmp_path, "waits", waits)

    def end_it() -> None:
        while not waiting.started.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    ender = threading.Thread(target=end_it, daemon=True)
    with SignalHandler():
        ender.start()
        with pytest.raises(Interrupted) as stopped:
            run([waiting], tmp_path)
        ender.join()
    assert str(stopped.value) == "stopped by SIGTERM; the same command continues from here"
    assert (tmp_path / "log").read_text(encoding="utf-8") == "saved"


@posix_only
def test_a_second_signal_reaches_the_command_too(tmp_path: Path) -> None:
    waits = (
        "import signal, time; Path('waits.begun').touch()\n"
        "def first(*_): signal.signal(signal.SIGTERM, second); Path('asked').touch()\n"
        "def second(*_): log.write('at once'); log.close(); os._exit(143)\n"
        "signal.signal(signal.SIGTERM, first); time.sleep(600)"
    )
    waiting = stage(tmp_path, "waits", waits)

    def end_it() -> None:
        for sign in (waiting.started, tmp_path / "asked"):
            while not sign.exists():
                time.sleep(0.01)
            time.sleep(0.1)  # the handler is installed
            os.kill(os.getpid(), signal.SIGTERM)

    ender = threading.Thread(target=end_it, daemon=True)
    with SignalHandler():
        ender.start()
        with pytest.raises(Interrupted):
            run([waiting], tmp_path)
        ender.join()
    assert (tmp_path / "log").read_text(encoding="utf-8") == "at once"


@posix_only
def test_a_command_has_no_ctrl_c_of_the_terminal(tmp_path: Path) -> None:
    run([stage(tmp_path, "asks", "log.write(str(os.getpgrp())); Path('asks.done').touch()")], tmp_path)
    assert int((tmp_path / "log").read_text(encoding="utf-8")) != os.getpgrp()


class SignalBefore:
    """An argument of a command; the signal comes before the process is started."""

    def __fspath__(self) -> str:
        signal.raise_signal(signal.SIGTERM)
        return "-c"


@posix_only
def test_a_signal_before_the_command_is_there_reaches_it_too(tmp_path: Path) -> None:
    code = f"import time; time.sleep(3); open({str(tmp_path / 'log')!r}, 'w')"
    command: list[Any] = [sys.executable, SignalBefore(), code]
    with SignalHandler(), pytest.raises(Interrupted):
        Stage("early", command, command, tmp_path / "begun", []).run()
    assert not (tmp_path / "log").exists()
