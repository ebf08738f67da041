"""Runs the scripts as a user does, but without the seconds that every new Python needs to import torch and Lightning:
each run is a new process, forked from one that has imported them."""

import atexit
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.processes import CHILDREN

PROJECT = Path(__file__).parents[2]
TOY = PROJECT / "data" / "toy"
# The model is as small as the corpus, because these runs test the commands and not the score.
SMALL = [
    "data=files",
    f"data.train={TOY}/validation",
    f"data.validation={TOY}/test",
    f"data.test={TOY}/test",
    "data.batch_tokens=1500",
    "tokenizer.vocabulary_size=500",
    "model.dim=32",
    "model.feed_forward.dim=64",
    "model.layers=1",
    "trainer=cpu",
    "machine.matmul_precision=highest",  # not timed at each start
    "search.length_ratio=1",
    "search.length_extra=5",
    "search.length_penalty=2.5",  # the model stores it
    "validation_search.length_ratio=1",
    "validation_search.length_extra=5",
]
SECONDS = 600
READ, WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT


class Run:
    """A command that runs in a new process: the path of a script, or -m and a module, and its arguments.

    `project`: a copy of this project whose `transformer` it imports.
    """

    def __init__(
        self,
        *command: str,
        cwd: Path,
        given: str | bytes = b"",
        environment: dict[str, str] | None = None,
        project: Path | None = None,
    ) -> None:
        self.command = command
        self._folder = tempfile.TemporaryDirectory()
        given_file, self.out, self.err = streams = [Path(self._folder.name) / name for name in ("in", "out", "err")]
        given_file.write_bytes(given.encode() if isinstance(given, str) else given)
        self.process = CHILDREN.Process(target=_run, args=(command, cwd, streams, environment or {}, project))
        self.process.start()

    def wait_for(self, text: str) -> None:
        """Waits until a line of stderr begins with the text."""
        end = time.monotonic() + SECONDS
        while not (self.err.exists() and f"\n{text}" in f"\n{self.err.read_text(encoding='utf-8')}"):
            if not self.process.is_alive() or time.monotonic() > end:
                raise AssertionError(f"{self.command} did not say {text}: {self.wait().stderr}")
            time.sleep(0.02)

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> "subprocess.CompletedProcess[str]":
        with self._folder:
            self.process.join(SECONDS)
            if self.process.exitcode is None:
                self.process.kill()
                raise TimeoutError(f"{self.command} took more than {SECONDS} seconds")
            out, err = (stream.read_text(encoding="utf-8") for stream in (self.out, self.err))
        return subprocess.CompletedProcess(self.command, self.process.exitcode, out, err)


def _run(
    command: tuple[str, ...], cwd: Path, streams: list[Path], environment: dict[str, str], project: Path | None
) -> None:
    """Becomes the command, with its folder, arguments, environment, input and output."""
    os.chdir(cwd)
    if project:
        for name in [name for name in sys.modules if name.split(".")[0] == "transformer"]:
            del sys.modules[name]
        sys.path.insert(0, str(project))
    os.environ.update(environment)
    for number, (stream, flags) in enumerate(zip(streams, (READ, WRITE, WRITE), strict=True)):
        os.dup2(os.open(stream, flags), number)
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    try:
        if command[0] == "-m":
            sys.argv = list(command[1:])
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(command)
            runpy.run_path(command[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()


def start(name: str, *arguments: str, cwd: Path) -> Run:
    """Starts one of our scripts."""
    return Run(str(PROJECT / "scripts" / f"{name}.py"), *arguments, cwd=cwd)


def script(name: str, *arguments: str, cwd: Path, given: str | bytes = b"") -> "subprocess.CompletedProcess[str]":
    """Runs one of our scripts to its end."""
    return Run(str(PROJECT / "scripts" / f"{name}.py"), *arguments, cwd=cwd, given=given).wait()


def ok(name: str, *arguments: str, cwd: Path, given: str | bytes = b"") -> str:
    done = script(name, *arguments, cwd=cwd, given=given)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def refused(name: str, *arguments: str, cwd: Path, given: str | bytes = b"") -> str:
    done = script(name, *arguments, cwd=cwd, given=given)
    assert done.returncode not in (0, None)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]
