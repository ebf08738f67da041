"""A script as a user starts it: streams, exit statuses, folders, sweeps."""

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from omegaconf import OmegaConf

from tests.cases import others_long
from tests.processes import posix_only
from tests.scripts.running import Run
from transformer.data.printable import console, say, silence


def run(project: Path, script: str, *arguments: str, cwd: Path | None = None, **environment: str) -> Any:
    command = str(project / f"{script}.py")
    return Run(command, *arguments, cwd=cwd or project, environment=environment).wait()


def test_a_script_prints_only_results_to_stdout_and_leaves_no_folder(project: Path, tmp_path: Path) -> None:
    text = 'Hallo, 2 = "zwei"!\n${x} \\'
    done = run(project, "translate", f"text={text}", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{text!r}\n", "a log line\n")
    assert not list(tmp_path.iterdir())


def test_a_run_folder_may_have_any_name(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a=b, 'c' ü"
    assert run(project, "train", f"hydra.run.dir={folder}").returncode == 0
    assert [path.name for path in folder.iterdir()] == ["checkpoints"], "Hydra writes nothing of its own"


def test_two_runs_in_one_second_have_two_folders(project: Path, tmp_path: Path) -> None:
    started = [Run(str(project / "train.py"), f"runs={tmp_path}", "name=x", cwd=tmp_path) for _ in range(3)]
    assert [one.wait().returncode for one in started] == [0, 0, 0]
    assert len(list(tmp_path.glob("*_x*"))) == 3


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    others_long(
        [
            (["model.hed=3"], 2, "error: model.hed: no such setting; did you mean model.heads? --cfg job shows all"),
            (["model.heads=11"], 2, "error: model.heads=11 is refused"),
            (["model.heads"], 2, "error: model.heads: no '=' in it: write KEY=VALUE"),
            (["two", "words", "-m"], 2, "error: two: a text needs its name and quotes: write text="),
            ([""], 2, "error: (empty): no '=' in it"),
            (["--heads", "8"], 2, "error: --heads: settings have no dashes: write model.heads=8;"),
            (["hydra.run=x"], 2, "error: hydra.run is a section; set one of hydra.run.dir"),
            (["hydra.run.dirr=x"], 2, "error: hydra.run.dirr: no such setting; did you mean hydra.run.dir?"),
            (["name=value"], 1, "error: the file is bad"),
            (["name=key"], 1, "error: KeyError: 'lost' (debug=true shows where)"),
            (["model.heads=13"], 1, "error: 13 heads (debug=true shows where)"),
            (["resume=last"], 2, "error: no run with checkpoints/last.ckpt in {runs}: train one, or name another"),
            (["-m", "--cfg", "job"], 2, "error: Only one of --run, --multirun"),
            (["-m", "model.heads=2,11"], 2, "error: model.heads=11 is refused"),
        ],
        short=8,
    ),
)
def test_an_error_is_one_line_on_stderr(
    project: Path, tmp_path: Path, arguments: list[str], status: int, line: str
) -> None:
    done = run(project, "train", f"runs={tmp_path}", *arguments)
    lines = done.stderr.removeprefix("a log line\n").splitlines()
    assert done.returncode == status
    assert len(lines) == 1
    assert lines[0].startswith(line.replace("{runs}", str(tmp_path)))
    assert status == 1 or not list(tmp_path.iterdir()), "a run that is refused leaves no folder"


def test_a_refused_run_leaves_neither_a_chosen_folder(project: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        assert run(project, "train", f"hydra.run.dir={tmp_path / name}", "model.heads=11").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("typed", ["debug=true", "++debug=True"])
def test_debug_shows_where_an_error_came_from(project: Path, tmp_path: Path, typed: str) -> None:
    done = run(project, "train", f"runs={tmp_path}", "name=key", typed)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "in train\n" in done.stderr
    assert done.stderr.endswith("error: KeyError: 'lost' (debug=true shows where)\n")


def test_a_child_process_names_its_rank(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", f"runs={tmp_path}", "name=value", LOCAL_RANK="1")
    assert done.stderr.endswith("[rank 1] error: the file is bad\n")


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "SLURM_NTASKS"])
def test_processes_started_side_by_side_need_one_folder(project: Path, tmp_path: Path, variable: str) -> None:
    done = run(project, "train", f"runs={tmp_path}", **{variable: "2"})
    assert done.stderr == "error: processes that torchrun or SLURM start need one folder: give hydra.run.dir=PATH\n"


@pytest.mark.parametrize("number", ["", "1", "many"])
def test_a_strange_number_of_processes_counts_as_one(project: Path, tmp_path: Path, number: str) -> None:
    done = run(project, "train", f"runs={tmp_path}", WORLD_SIZE=number)
    assert done.returncode == 0, done.stderr


@posix_only
def test_a_reader_that_has_gone_is_no_error(project: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(project / "train.py"), f"runs={tmp_path}", "name=much"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "a log line\nstarted\n"
    assert process.returncode == 141


TO_A_FULL_DISK = """
import os, runpy, sys
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has /dev/full")
@pytest.mark.parametrize(
    ("typed", "status", "before"),
    others_long(
        [
            (["text=ja"], 1, ["a log line"]),
            (["-m", "text=ja"], 1, ["a log line", "error: {}"]),  # a trial and the table
            (["--version"], 2, []),
            (["--help"], 2, []),
        ],
        short=2,
    ),
)
def test_results_that_find_no_room_are_told_of_stdout(
    project: Path, tmp_path: Path, typed: list[str], status: int, before: list[str]
) -> None:
    (tmp_path / "full.py").write_text(TO_A_FULL_DISK, encoding="utf-8")
    full, unwritable = str(tmp_path / "full.py"), "stdout cannot be written: No space left on device"
    done = Run(full, str(project / "translate.py"), *typed, cwd=tmp_path, environment={"PYTHONUNBUFFERED": ""}).wait()
    told = [line for line in done.stderr.splitlines() if not line.lstrip().startswith(("Launching", "#0"))]
    assert told == [line.format(unwritable) for line in [*before, "error: {}"]]
    assert done.returncode == status


WITHOUT_STREAMS = """
import os, sys
from transformer.cli.launch import open_closed_streams
open_closed_streams()
for stream in (sys.stdout, sys.stderr):
    stream.write("for nobody")
    stream.flush()
with open(sys.argv[1], "w") as file:
    file.write(str(file.fileno()))
"""


@posix_only
@pytest.mark.parametrize(
    ("closed", "said"),
    [("<&- >&- 2>&-", (b"", b"")), (">&-", (b"", b"for nobody")), ("2>&-", (b"for nobody", b""))],
)
def test_what_goes_to_a_closed_stream_goes_nowhere_and_into_no_file(
    tmp_path: Path, closed: str, said: tuple[bytes, bytes]
) -> None:
    command = ["sh", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, WITHOUT_STREAMS, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, *said)
    assert int((tmp_path / "file").read_text(encoding="utf-8")) > 2


# An environment in which Python's own streams take ASCII alone.
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


@pytest.mark.long
def test_a_pipe_gets_utf8_from_the_trials_of_a_sweep_too(project: Path, tmp_path: Path) -> None:
    plain = shutil.copytree(project, tmp_path / "plain")  # in a folder whose name is ASCII too
    done = run(plain, "train", "-m", f"runs={tmp_path}", "name=arrow", "seed=1", **ASCII)
    assert done.returncode == 0, done.stderr
    assert "\n→\n" in done.stdout


def test_the_stream_of_a_notebook_stays_as_it_is() -> None:
    # In a process of its own: what is set up here would stay for all later tests.
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


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A pipe to write to whose reader has gone."""
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
def test_a_table_whose_reader_has_gone_is_told_to_the_script(unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", unread)
    with pytest.raises(BrokenPipeError):
        console().print("a table")


def test_the_configuration_can_be_shown(project: Path) -> None:
    done = run(project, "train", "--cfg", "job", "text=a, b")
    assert done.returncode == 0
    assert OmegaConf.create(done.stdout).text == "a, b"


@pytest.mark.parametrize("option", ["--help", "--info", "--hydra-help"])
def test_hydras_own_options_work(project: Path, tmp_path: Path, option: str) -> None:
    done = run(project, "train", option, cwd=tmp_path)
    assert done.returncode == 0
    assert "Hydra" in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


def test_completion_by_the_shell_knows_the_settings(project: Path) -> None:
    completion = {"COMP_LINE": "python train.py model.he", "COMP_POINT": "24"}
    done = run(project, "train", "--shell-completion", "query=bash", **completion)
    assert done.stdout.split() == ["model.heads="]


# Sweeps end in a table.


def test_a_sweep_ends_in_a_table_with_its_failed_trials(project: Path, tmp_path: Path) -> None:
    long = "a text, with a comma" + " and more" * 20
    done = run(project, "train", "-m", f"runs={tmp_path}", f"text={long}", "model.heads=2,13", "cost=1,2")
    assert done.returncode == 1
    assert done.stderr.count("error: 13 heads (debug=true shows where)") == 2
    assert "Traceback" not in done.stderr
    assert done.stdout.count(repr(long)) == 4
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0] == ["0", "2", "1", "0.67", "0.50"]
    assert rows[3] == ["3", "13", "2", "13", "heads", "(debug=true", "shows", "where)"]
    with (tmp_path / "sweep" / "sweep.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["model.heads"] for row in table] == ["2", "2", "13", "13"]
    assert float(table[0]["bleu"]) == 2 / 3


@pytest.mark.long
def test_what_an_earlier_sweep_left_in_the_folder_is_neither_counted_nor_lost(project: Path, tmp_path: Path) -> None:
    assert run(project, "train", "-m", f"runs={tmp_path}", "model.heads=2,13").returncode == 1
    notes = tmp_path / "sweep" / "notes" / "trial.json"
    notes.parent.mkdir()
    notes.write_text("[a user's own]", encoding="utf-8")
    again = run(project, "train", "-m", f"runs={tmp_path}", "model.heads=3")
    assert again.returncode == 0, again.stderr
    assert [line.split()[0] for line in again.stdout.splitlines() if line.strip()[:1].isdigit()] == ["0"]
    assert notes.read_text(encoding="utf-8") == "[a user's own]"
    assert "13 heads" in (tmp_path / "sweep" / "1" / "trial.json").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_sweep_whose_folder_is_named_by_the_time_has_one_folder(project: Path, tmp_path: Path) -> None:
    done = run(project, "translate", "-m", "debug=false,true", "hydra.sweep.dir=${now:%H-%M-%S-%f}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [table] = tmp_path.rglob("sweep.csv")
    assert sorted(path.parent.name for path in table.parent.rglob("trial.json")) == ["0", "1"]


def test_the_log_lines_of_a_trial_steer_no_terminal(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", f"runs={tmp_path}", "name=log", "seed=1")
    assert "a log line\n\\x1b[2J\n" in done.stderr


@pytest.mark.long
def test_a_sweep_knows_configs_of_ones_own(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    (tmp_path / "own" / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nmodel: {heads: 3}\n", encoding="utf-8"
    )
    own = ["--config-dir", str(tmp_path / "own")]
    done = run(project, "train", "-m", *own, "experiment=mine", "seed=1,2", f"runs={tmp_path}")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert [row[:3] for row in rows[:2]] == [["0", "1", "2.00"], ["1", "2", "3.00"]]


@pytest.mark.long
@posix_only  # Windows does not remove the folder of a process
def test_a_trial_whose_outcome_cannot_be_written_ends_the_sweep_in_one_line(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", f"runs={tmp_path}", "name=gone", "seed=1")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith(f"\nerror: {tmp_path}/sweep/0: File exists\n")


@pytest.mark.long
def test_seeds_of_a_setting_end_in_mean_and_spread_and_a_picture(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", f"runs={tmp_path}", "model.heads=3,6", "seed=1,3")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "sweep" / "summary.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    # 1 + 1, 1 + 3: mean 3, variance (1 + 1) / 1.
    first = {"model.heads": "3", "seeds": "2", "bleu": "3.00 ± 1.41", "loss": "0.50 ± 0.00", "change in bleu": ""}
    assert table[0] == first
    assert table[1]["bleu"] == "4.00 ± 1.41"
    assert table[1]["change in bleu"] == "+1.00 ± 6.09, within the spread"
    assert "within the spread: " in done.stdout
    assert "3.00 ± 1.41" in done.stdout
    assert (tmp_path / "sweep" / "sweep.png").stat().st_size > 5_000


@pytest.mark.long
def test_a_launcher_takes_trials_to_processes_of_its_own(project: Path, tmp_path: Path) -> None:
    done = run(project, "train", "-m", "hydra/launcher=submitit_local", f"runs={tmp_path}", "model.heads=2,13")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0] == ["0", "2", "0.67", "0.50"]
    assert rows[1] == ["1", "13", "13", "heads", "(debug=true", "shows", "where)"]
    assert "Traceback" not in done.stderr


@posix_only
def test_a_trial_whose_process_dies_ends_no_other_trial(project: Path, tmp_path: Path) -> None:
    (tmp_path / "sweep" / "0").mkdir(parents=True)
    (tmp_path / "sweep" / "0" / "trial.json").write_text("of an earlier sweep", encoding="utf-8")
    done = run(project, "train", "-m", f"runs={tmp_path}", "cost=9,1", "model.heads=3")
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0][:2] == ["0", "9"]
    assert "the process of this trial ended with SIGKILL" in done.stdout
    assert rows[1][:3] == ["1", "1", "1.00"]
    assert "Traceback" not in done.stderr
