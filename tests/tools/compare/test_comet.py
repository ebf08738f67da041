"""COMET is called through its own program, here a stand-in with the same command line: the real one needs its model."""

import sys
from pathlib import Path

import pytest

from transformer.tools.compare.comet import comet_scores

# The score of a translation is the share of its lines that equal their references.
STAND_IN = f"""#!{sys.executable}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-s")
parser.add_argument("-r")
parser.add_argument("-t", nargs="+")
parser.add_argument("--model")
parser.add_argument("--gpus", type=int)
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--only_system", action="store_true")
given = parser.parse_args()
if given.model != "known":
    raise KeyError(f"Model '{{given.model}}' not supported by COMET.")
sources, references, *systems = (open(file).readlines() for file in (given.s, given.r, *given.t))
for name, lines in zip(given.t, systems):
    print(f"{{name}}\\tscore: {{sum(map(str.__eq__, lines, references)) / len(sources):.4f}}")
"""
REFERENCES = ["the cat", "the dog", "a house", "an apple"]
SYSTEMS = {"good, 1": [*REFERENCES[:3], "x"], "score: 1": [REFERENCES[0], "x", "", "y"]}


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script with #!")


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "comet-score").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "comet-score").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_each_system_gets_its_score() -> None:
    assert comet_scores("known", SYSTEMS, ["s"] * 4, REFERENCES) == {"good, 1": 0.75, "score: 1": 0.25}


def test_a_model_that_cannot_be_downloaded_is_reported_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"--comet other: .* this model: KeyError") as error:
        comet_scores("other", SYSTEMS, ["s"] * 4, REFERENCES)
    assert "\n" not in str(error.value)


def test_a_missing_program_is_reported_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ValueError, match=r"needs the program comet-score: .*pipx install unbabel-comet"):
        comet_scores("known", SYSTEMS, ["s"] * 4, REFERENCES)
