"""An error is one line, and foreign text in it steers no terminal."""

import logging
import sys
from pathlib import Path

import pytest

from transformer.cli import PROJECT
from transformer.cli.errors import describe, report
from transformer.data.printable import SafeFormatter, script_command, shell_word, terminal_safe
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
def test_what_steers_a_terminal_or_breaks_a_line_is_escaped(text: str, safe: str) -> None:
    assert terminal_safe(text) == safe


def test_a_log_message_keeps_its_indentation_and_its_lines() -> None:
    record = logging.LogRecord("hydra", logging.INFO, "", 1, "\t#0 : seed=1\n\x1b[2J", None, None)
    assert SafeFormatter().format(record) == "  #0 : seed=1\n\\x1b[2J"


def test_an_error_with_escape_sequences_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    report(ValueError("the language \x1b]0;title\x07 is\nunknown"), debug=False)
    assert capsys.readouterr().err == "error: the language \\x1b]0;title\\x07 is unknown\n"


def test_an_unexpected_error_says_its_type_and_how_to_see_more() -> None:
    assert describe(KeyError("x")) == "KeyError: 'x' (debug=true shows where)"
    assert describe(RuntimeError("x")) == "x (debug=true shows where)"
    assert describe(KeyError()) == "KeyError (debug=true shows where)"
    assert describe(ValueError("x")) == "x"
    assert describe(ValueError()) == "ValueError"


def test_a_process_that_lost_another_one_says_so() -> None:
    gloo = f"[/a/long/path/{'x' * 200}/pair.cc:1] Connection closed by peer [10.0.0.7]"
    told = describe(RuntimeError(gloo))
    assert told == "another process has ended before its work was done (Connection closed by peer)"
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
def test_of_several_processes_all_but_the_first_say_their_number(
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
    assert script_command("train") == "python scripts/train.py"
