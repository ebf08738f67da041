"""An error is one line, control characters in it are escaped, and streams take all text, also if nobody reads them."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from tests.processes import posix_only
from tests.scripts.running import PROJECT
from transformer.cli.errors import describe, report, status_of
from transformer.printing import SafeFormatter, console, say, script_command, shell_word, silence, terminal_safe
from transformer.processes import rank


@pytest.mark.parametrize("text", ["Grüße, 猫!", "naïve\u200d – ½", "\u00a0", "عربي \u200f"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert terminal_safe(text) == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[2Jx", "\\x1b[2Jx"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("a\u2028b", "a\\u2028b"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_and_line_breaks_are_escaped(text: str, safe: str) -> None:
    assert terminal_safe(text) == safe


def test_a_log_message_keeps_its_indentation_and_its_lines() -> None:
    record = logging.LogRecord("hydra", logging.INFO, "", 1, "\t#0 : seed=1\n\x1b[2J", None, None)
    assert SafeFormatter().format(record) == "  #0 : seed=1\n\\x1b[2J"


def test_an_error_with_escape_sequences_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    report(ValueError("the language \x1b]0;title\x07 is\nunknown"), debug=False)
    assert capsys.readouterr().err == "error: the language \\x1b]0;title\\x07 is unknown\n"


def test_an_unexpected_error_says_its_type_and_how_to_see_more() -> None:
    for error, said in ((KeyError("x"), "KeyError: 'x'"), (RuntimeError("x"), "x"), (KeyError(), "KeyError")):
        assert describe(error).startswith(f"{said} (--debug")
    assert describe(ValueError("x")) == "x"
    assert describe(ValueError()) == "ValueError"


def test_a_process_that_lost_another_one_says_so() -> None:
    gloo = f"[/a/long/path/{'x' * 200}/pair.cc:1] Connection closed by peer [10.0.0.7]"
    message = describe(RuntimeError(gloo))
    assert message == "another process has ended before its work was done (Connection closed by peer)"
    assert describe(ValueError("Broken pipe")) == "Broken pipe"


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        ({}, 0),
        ({"RANK": "9", "LOCAL_RANK": "1"}, 9),  # the second process of the second machine
        ({"LOCAL_RANK": "1"}, 1),
        ({"RANK": "", "LOCAL_RANK": "none", "SLURM_PROCID": "2"}, 2),
    ],
)
def test_all_processes_but_the_first_print_their_number(
    environment: dict[str, str], number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert rank() == number
    report(ValueError("x"), debug=False)
    assert capsys.readouterr().err == (f"[rank {number}] error: x\n" if number else "error: x\n")


def test_an_error_of_the_system_names_its_file_and_no_number(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "nowhere").read_bytes()
    assert describe(caught.value) == f"{tmp_path / 'nowhere'}: No such file or directory"
    assert describe(OSError(28, "No space left on device")) == "No space left on device"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("runs\\2026-11-27_toy", "runs\\2026-11-27_toy"),
        ("C:/Users/Jörg/x.de", "C:/Users/Jörg/x.de"),
        ("runs\\a b", '"runs\\a b"'),
        ("[a,b]", '"[a,b]"'),
        ('"so"', '"\\"so\\""'),
        ("", '""'),
    ],
)
def test_on_windows_a_word_is_quoted_as_cmd_and_powershell_know(
    monkeypatch: pytest.MonkeyPatch, text: str, typed: str
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert shell_word(text) == typed


def test_a_command_names_a_script_as_it_can_be_started_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = PROJECT / "scripts"
    for folder, typed in (
        (PROJECT, "scripts/doctor.py"),
        (scripts, "doctor.py"),
        (tmp_path, str(scripts / "doctor.py")),
    ):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [typed])
        python, script = script_command("train").split(" ", 1)
        assert python == "python"
        assert Path(script) == Path(typed).with_name("train.py")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "my_own.py")])  # a user of the library
    assert script_command("train") == "translator train"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 0),
        (ValueError("a mistake"), 2),
        (FileNotFoundError("no such file"), 2),
        (OSError(28, "No space left on device"), 1),
        (RuntimeError("a failure"), 1),
        (MemoryError(), 1),
        (BrokenPipeError(), 141),
    ],
)
def test_the_exit_status_distinguishes_a_mistake_from_a_failure(
    error: Exception | None, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def work() -> None:
        if error:
            raise error

    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert status_of(work, lambda: False) == status


# Streams.


# An environment in which Python's own streams take only ASCII.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("asked", "printed"), [({}, "ä → 你".encode()), ({"PYTHONIOENCODING": "latin-1"}, b"\xe4 \\u2192 \\u4f60")]
)
def test_a_pipe_gets_utf8_wherever_it_is_unless_another_encoding_is_asked_for(
    asked: dict[str, str], printed: bytes
) -> None:
    code = "from transformer.cli.errors import configure_output as c; c(); print('\\xe4 \\u2192 \\u4f60', end='')"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | ASCII | asked, capture_output=True)
    assert done.stdout == printed


def test_the_stream_of_a_notebook_stays_as_it_is() -> None:
    # In a new process: a change here would stay for all later tests.
    code = """
import io, sys
from transformer.cli.errors import configure_output
sys.stdout, sys.stderr, terminal = io.StringIO(), io.StringIO(), sys.stdout
configure_output()
print("→", file=sys.stderr)
print("→")
terminal.buffer.write((sys.stdout.getvalue() + sys.stderr.getvalue()).encode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["→", "→"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has /dev/full")
def test_results_without_room_on_the_disk_are_reported_in_one_line() -> None:
    command = [sys.executable, "-m", "transformer", "translate", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=PROJECT)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@posix_only
def test_a_reader_that_has_gone_is_no_error() -> None:
    code = "import sys, transformer.cli.errors as e; sys.exit(e.status_of(lambda: print('a\\n' * 10**6), bool))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + 13


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """The writing end of a pipe that has no reader."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        yield pipe
        silence(pipe)


@posix_only
def test_a_log_that_nobody_reads_ends_no_work(unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", unread)
    out = console(stderr=True)
    for _ in range(2):
        out.print("a validation")
    say("a line")


@posix_only
def test_the_script_notices_that_the_reader_of_a_table_has_gone(
    unread: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", unread)
    with pytest.raises(BrokenPipeError):
        console().print("a table")
