"""A mistake gives one line with its name and the remedy and the exit status 2, and leaves nothing behind."""

import os
import shlex
from pathlib import Path

import pytest

from tests.cases import others_long
from tests.scripts.running import PROJECT, Run

PRESETS = {
    "broken": "model: {dim: 8",
    "unknown": "model: {hed: 8}",
    "wrong": "training: {learning_rate: fast}",
    "odd": "modl: {dim: 8}",
    "cyclic": "seed: ${nix}",
    "loud": "debug: true\nseed: x",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the user's own presets and a text."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "own" / "experiment").mkdir(parents=True)
    for name, text in PRESETS.items():
        preset = f"# @package _global_\n{text}\n"
        (folder / "own" / "experiment" / f"{name}.yaml").write_text(preset, encoding="utf-8")
    (folder / "x.en").write_text("one\n", encoding="utf-8")
    return folder


def refusal(line: str, home: Path, **environment: str) -> str:
    """The message of a command that must be refused."""
    name, *arguments = shlex.split(line)
    before = sorted(home.rglob("*"))
    command = ["-m", "transformer"] if name == "translator" else [f"{PROJECT}/scripts/{name}.py"]
    done = Run(*command, *arguments, cwd=home, environment=environment).wait()
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert sorted(home.rglob("*")) == before
    return done.stderr


OWN = "train --config-dir=own experiment="
FILES = "train data=files data.source_language=de data.target_language=en"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        # Settings that train does not have, or values that it does not take.
        ("train model.hed=3", ["model.hed:", "model.heads"]),
        ("train data=nix", ["data/nix:", "toy", "files"]),
        ("train model.dim=x", ["model.dim=x"]),
        ("train debug=maybe", ["debug=maybe"]),
        ("train training.learning_rate=-1", ["training.learning_rate=-1"]),
        ("train model.heads=7", ["heads=7", "dim=128"]),
        ("train ~model seed=x", ["seed=x"]),
        # Wrong forms of a command line.
        ("train --heads 8", ["--heads", "model.heads=VALUE"]),
        ("train heads 8", ["heads:", "KEY=VALUE"]),
        ("train data.train=a[b", ["data.train=a[b", "quotes"]),
        # Names of things that do not exist.
        (f"{FILES} data.pairs=nowhere.tsv", ["nowhere.tsv"]),
        (FILES, ["data.train", "data.pairs"]),
        ("train resume=nowhere", ["resume=nowhere", "last"]),
        ("train resume=last", ["checkpoints/last.ckpt"]),
        ("train hydra.run.dir=x.en/run", ["x.en", "hydra.run.dir="]),
        ("train -m seed=1,2 hydra.sweep.dir=x.en/sweep", ["x.en", "hydra.sweep.dir="]),
        ("train init_from=nowhere/multi30k_cpu", ["init_from=", "experiment=multi30k_cpu"]),
        # Mistakes in the user's own preset.
        (f"{OWN}broken", [f"experiment{os.sep}broken.yaml", "line 2"]),
        (f"{OWN}unknown", ["model.hed:", "heads"]),
        (f"{OWN}wrong", ["training.learning_rate=fast"]),
        (f"{OWN}odd", ["modl:", "model"]),
        (f"{OWN}cyclic", ["seed:", "nix"]),
        # The other commands have flags.
        ("translate --beem 3 ja", ["--beem", "--beam"]),
        ("translate --method greddy ja", ["--method", "greedy"]),
        ("translate --beam 0 ja", ["--beam"]),
        ("translate checkpoint=RUN ja", ["--checkpoint RUN"]),
        ("translate --checkpoint nowhere ja", ["--checkpoint nowhere"]),
        ("translate ja", ["runs", "--checkpoint"]),
        ("translate ja nein", ["nein"]),
        ("translate --checkpoint x.en --input nowhere", ["--input", "nowhere"]),
        ("translate --n-best 6 ja", ["--n-best 6", "--beam 6"]),
        ("evaluate --reference x.en", ["--reference", "--input"]),
        ("explain ja --output x.doc", ["--output", ".html"]),
        ("export page", ["--output"]),
        ("export word --output x", ["word", "page"]),
        ("doctor nowhere.tsv", ["nowhere.tsv"]),
        ("compare x", ["x"]),
        ("back_translate folds=1", ["folds=1"]),
        ("back_translate outptu=x", ["outptu:", "output"]),
        ("translator trian", ["trian", "train"]),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_the_remedy(line: str, named: list[str], home: Path) -> None:
    message = refusal(line, home)
    assert message.startswith("error: ")
    assert message.count("\n") == 1, message
    for name in named:
        assert name in message


@pytest.mark.parametrize("variable", others_long(["WORLD_SIZE", "SLURM_NTASKS"]))
def test_processes_started_side_by_side_need_one_folder(variable: str, home: Path) -> None:
    assert "hydra.run.dir=" in refusal("train", home, **{variable: "2"})
    assert "init_from=" in refusal("train init_from=nowhere", home, **{variable: "1"})


@pytest.mark.parametrize(
    "line",
    others_long(
        [
            *("train debug=true seed=x", f"{OWN}loud", "back_translate debug=true folds=1"),
            *("translate ja --debug", "export --debug nix --output x"),
        ],
        short=2,
    ),
)
def test_with_debug_a_traceback_stands_before_the_line(line: str, home: Path) -> None:
    message = refusal(line, home)
    assert message.startswith("Traceback (most recent call last):\n")
    assert message.splitlines()[-1].startswith("error: ")


def test_after_two_dashes_debug_is_text(home: Path) -> None:
    assert "Traceback" not in refusal("translate -- --debug", home)
