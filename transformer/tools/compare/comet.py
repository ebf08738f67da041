"""COMET, a metric that is itself a trained model, computed by the program `comet-score` if it is installed."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

# Its package needs torchmetrics before 0.11, ours a later one: they cannot be in one environment.
INSTALL = "install it in its own environment (pipx install unbabel-comet) and put it on the PATH"


def comet_scores(
    model: str, systems: dict[str, list[str]], sources: list[str], references: list[str]
) -> dict[str, float]:
    """The score of each system (hypotheses by name); `model` is a name like Unbabel/wmt22-comet-da, or a .ckpt.

    Raises ValueError if comet-score is missing or cannot load its model.
    """
    if (program := shutil.which("comet-score")) is None:
        raise ValueError(f"--comet {model} needs the program comet-score: {INSTALL}")
    with tempfile.TemporaryDirectory() as folder:
        # Files are named by number, because a system may have any name.
        texts = {"source": sources, "reference": references} | {str(i): text for i, text in enumerate(systems.values())}
        for name, lines in texts.items():
            Path(folder, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        files = ["-s", "source", "-r", "reference", "-t", *map(str, range(len(systems)))]
        # An absolute path, because the program runs in another folder.
        name_or_path = str(Path(model).absolute()) if Path(model).exists() else model
        options = ["--model", name_or_path, "--gpus", str(int(torch.cuda.is_available())), "--quiet", "--only_system"]
        done = subprocess.run([program, *files, *options], cwd=folder, capture_output=True, text=True, check=False)
    scores = re.findall(r"^\d+\tscore: (\S+)$", done.stdout, re.MULTILINE)
    if done.returncode or len(scores) != len(systems):
        message = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1]
        raise ValueError(f"--comet {model}: comet-score cannot fetch or use this model: {message}")
    return dict(zip(systems, map(float, scores), strict=True))
