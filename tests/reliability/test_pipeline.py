"""Back-translation as one command, killed in any stage: the same command continues it, with the same results."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.data.corpora import write
from tests.processes import posix_only
from tests.reliability.runs import OVERRIDES
from tests.scripts.running import Run, ok, start
from tests.training.small import DIGITS, ENGLISH
from transformer.cli.pipeline import Stage, run_stages
from transformer.signals import Interrupted, SignalHandler

pytestmark = posix_only
FRENCH = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]
WORDS = {"de": DIGITS, "en": ENGLISH, "fr": FRENCH}
STEPS = "trainer.max_steps=4 training.validate_every=2 training.checkpoint_every_steps=1 training.warmup_steps=1"
SETTINGS = [
    *(*OVERRIDES, *STEPS.split(), "data.source_language=de", "data.target_language=en", "data.cache=cache"),
    *("data.train=train", "data.validation=validation", "data.test=test", f"finetune='{STEPS}'"),
    "augment='--method greedy --max-length 8 --filters empty --filters duplicate --filters held_out --device cpu "
    "--precision float32 --threads 1'",
]
SECONDS = 120


def spoken(numbers: range, language: str) -> list[str]:
    return [" ".join(WORDS[language][int(digit)] for digit in str(number)) for number in numbers]


def write_texts(folder: Path, name: str, numbers: range, *languages: str) -> None:
    for language in languages:
        write(folder, f"{name}.{language}", spoken(numbers, language))


def wait_until(condition: Callable[[], Any]) -> Any:
    """The value of the condition as soon as it is true."""
    end = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.002)
    return value


def child_of(process: int | None) -> int | None:
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True).stdout
    children = [int(pid) for parent, pid in map(str.split, listed.splitlines()) if int(parent) == process]
    return children[0] if children else None


def kill(running: Run, stage: str, is_begun: Callable[[], bool]) -> None:
    """Kills the command and its stage as soon as there is work to continue."""
    running.wait_for(f"{stage} …")
    command = running.process.pid
    child = wait_until(lambda: child_of(command) or not running.process.is_alive())
    wait_until(lambda: is_begun() or not running.process.is_alive())
    if running.process.is_alive():
        assert command is not None
        for process in (command, child):
            os.kill(process, signal.SIGKILL)
    ended = running.wait()
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def has_lines(partial: Path) -> bool:
    """Whether a part of the text has been translated."""
    return partial.exists() and partial.stat().st_size > 0


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("ps"), reason="needs ps, which finds the process of a stage")
def test_a_pipeline_killed_in_each_stage_ends_like_a_whole_one(tmp_path: Path) -> None:
    for name, numbers in (("train", range(100, 160)), ("validation", range(20, 30)), ("test", range(30, 40))):
        write_texts(tmp_path, name, numbers, "de", "en")
    write_texts(tmp_path, "text", range(1000, 1700), "en")
    command = [*SETTINGS, "input=text.en"]
    undisturbed = start("back_translate", *command, "output=whole", cwd=tmp_path)
    killed = tmp_path / "killed"
    stages: dict[str, tuple[Callable[[], bool], Path]] = {
        run: ((killed / run / "checkpoints" / "last.ckpt").exists, killed / run / "README.md")
        for run in ("reverse", "forward", "final")
    }
    stages["augment"] = (lambda: has_lines(killed / "synthetic.partial"), killed / "synthetic.origin")
    for stage in ("reverse", "augment", "forward", "final"):
        is_begun, finished = stages[stage]
        kill(start("back_translate", *command, "output=killed", cwd=tmp_path), stage, is_begun)
        assert is_begun()
        assert not finished.exists()
    printed = ok("back_translate", *command, "output=killed", cwd=tmp_path)
    whole = undisturbed.wait()
    assert whole.returncode == 0, whole.stderr
    scores = [line for line in printed.splitlines() if re.match("(forward|final), test: BLEU", line)]
    assert scores == whole.stdout.splitlines()[-2:]  # after the output of the stages
    pairs = {path.name: path.read_bytes() for path in (tmp_path / "whole").glob("synthetic.*")}
    assert pairs.keys() == {f"synthetic.{end}" for end in ("de", "en", "origin", "dropped.tsv")}
    assert pairs == {path.name: path.read_bytes() for path in killed.glob("synthetic.*")}
    for run in ("reverse", "forward", "final"):
        ours, theirs = (load_file(folder / run / "translator.safetensors") for folder in (killed, tmp_path / "whole"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        hypotheses = [folder / run / "hypotheses.test.txt" for folder in (killed, tmp_path / "whole")]
        assert hypotheses[0].read_bytes() == hypotheses[1].read_bytes()


@pytest.mark.long
def test_no_pair_of_one_direction_has_a_held_out_sentence_of_another(tmp_path: Path) -> None:
    """Each pair of languages has its own corpus, and the text has the tests of both. Checked by `forward`."""
    for language, shift in (("de", 0), ("fr", 100)):
        for name, start_of in (("train", 1000), ("validation", 20), ("test", 40)):
            numbers = range(start_of + shift, start_of + shift + (60 if name == "train" else 10))
            write_texts(tmp_path, f"{name}.{language}-en", numbers, language, "en")
    write_texts(tmp_path, "text", range(20, 220), "en")
    command = [*SETTINGS, "data.directions=[de-en,fr-en]", "input=text", "reverse='test=false'", "output=all"]
    running = start("back_translate", *command, cwd=tmp_path)
    running.wait_for("forward …")
    begun = tmp_path / "all" / "forward" / "checkpoints" / "last.ckpt"
    wait_until(lambda: begun.exists() or not running.process.is_alive())
    if running.process.is_alive():
        running.send_signal(signal.SIGTERM)
    stopped = running.wait()
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    assert stopped.stderr.splitlines()[-1] == "stopped by SIGTERM; the same command continues from here"
    held_out = {line for first in (20, 40, 120, 140) for line in spoken(range(first, first + 10), "en")}
    for language in ("de", "fr"):
        kept = (tmp_path / "all" / f"synthetic.{language}-en.en").read_text(encoding="utf-8").splitlines()
        assert held_out.isdisjoint(kept)
        assert len(kept) == 200 - len(held_out)


# The commands of a pipeline.


def stage_of(folder: Path, *command: str) -> Stage:
    return Stage("only", [sys.executable, *command], ["false"], folder / "begun", [folder / "finished"])


def test_a_signal_while_a_command_is_started_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Signalled(subprocess.Popen[bytes]):
        """The signal comes when the command runs, but before its number is known."""

        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(subprocess, "Popen", Signalled)
    continues = "by SIGTERM; the same command continues from here"
    with SignalHandler(), pytest.raises(Interrupted, match=continues):
        run_stages([stage_of(tmp_path, "-c", f"import time; time.sleep({SECONDS})")], tmp_path, lambda: None)
    assert [process.poll() for process in started] == [-signal.SIGTERM]
