"""The output of translations: on a terminal control characters are escaped, everywhere else all characters are
written."""

import json
import math
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from transformer.cli.lines import as_json, as_lines, chunk_size, chunks, count_lines, input_lines, is_prompt
from transformer.cli.output import Output
from transformer.config import UsageError
from transformer.inference.parts import Translation, Word

needs_terminals = pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no pseudo-terminals")
HEBREW = Translation("\u2067שלום\u2069 לך", -0.5, -2.0, [], words=[Word("לך", 0.25, 0)])


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_gets_the_marks_of_right_to_left_text_and_a_terminal_their_names(count: int) -> None:
    columns = "7\t-0.5000\t0.1353\t" if count > 1 else ""  # e⁻²
    found = [(7, "shalom", [HEBREW] * count)]
    assert [*as_lines(found, count > 1, on_terminal=False)] == [f"{columns}\u2067שלום\u2069 לך\n"] * count
    assert [*as_lines(found[:1], count > 1, on_terminal=True)] == [f"{columns}\\u2067שלום\\u2069 לך\n"] * count
    for on_terminal in (False, True):
        [written] = as_json(found, on_terminal)
        assert written.isascii() == on_terminal
        confidence = {
            "confidence": pytest.approx(math.exp(-2)),
            "words": [{"text": "לך", "confidence": 0.25, "source": 0}],
        }
        one = {"text": HEBREW.text, "score": -0.5, "log_probability": -2.0, "is_cut": False} | confidence
        assert json.loads(written) == {"line": 7, "source": "shalom", "translations": [one] * count}


@needs_terminals
def test_a_person_is_asked_for_one_sentence_after_the_other_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"ein Haus\nein Hund\n\x04")
    with os.fdopen(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert [*input_lines(None, None)] == ["ein Haus", "ein Hund"]
        assert [is_prompt(None, None), is_prompt("ja", None), is_prompt(None, "file")] == [True, False, False]
        monkeypatch.setattr(sys, "stdin", None)
        assert not is_prompt(None, None)
    os.close(keyboard)
    out, err = capsys.readouterr()
    assert (out, err.count("> ")) == ("", 3)


@needs_terminals
def test_an_output_knows_whether_it_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for (reader, writer), is_terminal in ((os.pipe(), False), (os.openpty(), True)):
        with os.fdopen(writer, "w") as stream, Output(None) as before:
            assert not before.is_terminal  # pytest's replacement of stdout
            monkeypatch.setattr(sys, "stdout", stream)
            with Output(None) as output:
                assert output.is_terminal == is_terminal
            monkeypatch.undo()
        os.close(reader)


@pytest.mark.parametrize(
    ("total", "batch_tokens", "size"),
    [(None, 65536, 256), (40, 2048, 256), (10_000, 2048, 500), (10**6, 2048, 1024), (10**6, 65536, 32768)],
)
def test_a_long_file_is_translated_in_steps_that_fill_batches(total: int | None, batch_tokens: int, size: int) -> None:
    assert chunk_size(total, batch_tokens) == size


@pytest.mark.parametrize("clock", [time.monotonic, lambda: 1.0], ids=["fine", "coarse"])
def test_chunks_hold_all_lines_in_their_order(clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> None:
    # On Windows the clock advances 64 times a second, so many empty lines seem to take no time.
    monkeypatch.setattr(time, "monotonic", clock)
    lines = [str(number) for number in range(10)]
    dealt = list(chunks(iter(lines), 4, 0, len(lines)))
    assert [numbers for numbers, _ in dealt] == [range(1, 5), range(5, 9), range(9, 11)]
    assert [line for _, chunk in dealt for line in chunk] == lines
    assert [numbers for numbers, _ in chunks(iter(lines), 6, 20, 30)] == [range(21, 27), range(27, 31)]


def test_no_bar_is_shown_if_input_or_output_is_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    for total in (3, None):
        assert [chunk for _, chunk in chunks(iter("abc"), 2, 0, total)] == [["a", "b"], ["c"]]
    assert capsys.readouterr().err == ""


def test_a_program_gets_the_answer_to_each_line_before_it_writes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, encoding="utf-8") as stdin, os.fdopen(writer, "wb", buffering=0) as program:
        monkeypatch.setattr(sys, "stdin", stdin)
        dealt = chunks(input_lines(None, None), 4, 0, None)
        program.write("schläft\n".encode())
        assert next(dealt) == (range(1, 2), ["schläft"])
        program.write(b"a\nb\nc\nd\ne\n")  # lines that arrive together are translated together
        assert [next(dealt), next(dealt)] == [(range(2, 6), [*"abcd"]), (range(6, 7), ["e"])]
        program.write(b"x\n\xff\n")
        assert next(dealt) == (range(7, 8), ["x"])
        with pytest.raises(ValueError, match=r"^stdin line 8 is not UTF-8"):
            next(dealt)


def test_a_text_is_one_line_and_the_lines_of_a_pipe_are_not_counted() -> None:
    assert [*input_lines("ein\nHaus", None)] == ["ein Haus"]
    assert count_lines(os.devnull) is None


def test_a_file_that_is_missing_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^--input .*nix: no such file$"):
        count_lines(str(tmp_path / "nix"))
    with pytest.raises(UsageError, match=f"^--input {re.escape(str(tmp_path))} is a folder"):
        count_lines(str(tmp_path))


@pytest.mark.parametrize("name", ["pairs.tsv", "PAIRS.CSV", "pairs.tsv.gz"])
def test_a_table_is_not_taken_for_sentences(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("eins\tone\n", encoding="utf-8")
    with pytest.raises(UsageError, match=f"^--input .*{re.escape(name)} is a table: write its column into a separate"):
        count_lines(str(tmp_path / name))
