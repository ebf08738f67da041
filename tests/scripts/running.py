"""Runs the scripts as a user does, but for the seconds that every new Python needs to import torch and Lightning: each
run is a process of its own, forked from one that has imported them."""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]
TOY = PROJECT / "data" / "toy"
# The model is as small as the corpus: these runs are about the path, not about the score.
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
    "search.length_ratio=1",
    "search.length_extra=5",
    "validation_search.length_ratio=1",
    "validation_search.length_extra=5",
]
SECONDS = 300
READ, WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["hydra", "transformer.training.train", "transformer.visualization.explain"])


def script(name: str, *arguments: str, cwd: Path, given: str | bytes = b"") -> "subprocess.CompletedProcess[str]":
    command = [str(PROJECT / "scripts" / f"{name}.py"), *arguments]
    with tempfile.TemporaryDirectory() as place:
        streams = [Path(place) / stream for stream in ("in", "out", "err")]
        streams[0].write_bytes(given.encode() if isinstance(given, str) else given)
        process = forks.Process(target=_run, args=(command, cwd, streams))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{command} took more than {SECONDS} seconds")
        out, err = (stream.read_text() for stream in streams[1:])
    return subprocess.CompletedProcess(command, process.exitcode, out, err)


def _run(command: list[str], cwd: Path, streams: list[Path]) -> None:
    """Becomes the script: its folder, arguments, input and output."""
    os.chdir(cwd)
    for number, (stream, flags) in enumerate(zip(streams, (READ, WRITE, WRITE), strict=True)):
        os.dup2(os.open(stream, flags), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.argv, sys.path[:0] = command, [str(PROJECT / "scripts")]
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()


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
