"""Hostile folders of runs, and what five commands do with them: for `test_folders`.

Each attack changes one thing in a copy of a small real run. `try_folder` gives the folder to the commands in a new
process that watches them.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.processes import peak_memory
from tests.reliability.runs import corpus, settings
from tests.reliability.runs import train as run_training
from transformer.cli.app import parse
from transformer.cli.errors import describe
from transformer.printing import say
from transformer.training.train import silence_lightning

SECRET = "hunter2-of-the-environment"
MAX_SECONDS, MAX_MEMORY = 120, 1 << 30
FORBIDDEN = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.kill", "ctypes.dlopen"),
    *("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request", "pty.spawn"),
)


# ---- the attacks

BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{f'*{last}, ' * 9}]\n" for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)
STARTS = "__import__('os').system('touch ran')"


def field(run: Path, name: str, value: Any, file: str = "config.yaml") -> None:
    """Replaces a field of a file, for example data.train."""
    path = run / file
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    *above, key = name.split(".")
    section = tree
    for part in above:
        section = section[part]
    section[key] = value
    text = yaml.safe_dump(tree, sort_keys=False) if path.suffix == ".yaml" else json.dumps(tree)
    path.write_text(text, encoding="utf-8")


def part(run: Path, name: str, value: Any) -> None:
    """Replaces a part of last.ckpt and best.ckpt, and deletes the model of the finished run."""
    (run / "translator.safetensors").unlink()
    for path in run.glob("checkpoints/*.ckpt"):
        checkpoint = torch.load(path, weights_only=True)
        checkpoint[name] = value
        torch.save(checkpoint, path)


def replaced(path: Path) -> Path:
    """The path, after deleting everything there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def beside(run: Path, name: str, content: str) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text(content, encoding="utf-8")


# Every attack that was found here, and attacks that worked on other programs: a function that changes the run's folder;
# files in `outside` may not be changed or read.
LIES: dict[str, Callable[[Path, Path], Any]] = {
    "nothing": lambda run, outside: None,
    "a name of code": lambda run, outside: field(run, "data", {"_target_": "os.system", "_args_": ["touch ran"]}),
    "an object of Python": lambda run, outside: beside(
        run, "config.yaml", "data: !!python/object/apply:os.system ['touch ran']\n"
    ),
    "a variable of the environment": lambda run, outside: field(run, "data.train", "${oc.env:LIES_SECRET}"),
    "a variable of the shell": lambda run, outside: field(run, "data.name", "$LIES_SECRET %LIES_SECRET%"),
    "a path outside": lambda run, outside: field(run, "data.test", str(outside / "victim")),
    "a cache outside": lambda run, outside: field(run, "data.cache", str(outside / "folder")),
    "a corpus of a device": lambda run, outside: field(run, "data.test", "/dev/zero"),
    "a corpus of the net": lambda run, outside: field(run, "data.url", "https://example.org/x"),
    "a corpus of packages": lambda run, outside: field(run, "data.url", "apt:libreoffice-help"),
    "aliases that unfold to more than memory": lambda run, outside: beside(run, "config.yaml", BOMB),
    "a number of many digits": lambda run, outside: beside(run, "config.yaml", "seed: 1" + ":59" * 100_000),
    "lists in lists": lambda run, outside: beside(run, "test.json", "[" * 100_000),
    "objects in objects": lambda run, outside: beside(run, "evaluation.json", '{"a":' * 50_000),
    "settings that are a list": lambda run, outside: beside(run, "config.yaml", "- 1\n"),
    "settings of UTF-16": lambda run, outside: (run / "config.yaml").write_bytes(b"\xff\xfe\0"),
    "a terminal's commands": lambda run, outside: field(run, "data.source_language", "\x1b]0;owned\x07\u202e"),
    "a name of 100,000 letters": lambda run, outside: field(run, "data.target_language", "x" * 100_000),
    "a file's name that leads elsewhere": lambda run, outside: field(run, "data.extra_tests", {"../x": "test"}),
    "a score that is text": lambda run, outside: field(run, "test.bleu", "\x1b[2J", "test.json"),
    "a score of infinity": lambda run, outside: field(run, "test.bleu", float("inf"), "test.json"),
    "an int where text belongs": lambda run, outside: field(run, "test.signatures", 10**30, "test.json"),
    "a search that is none": lambda run, outside: field(run, "search.beam", 2**62),
    "rows of a log that are text": lambda run, outside: beside(run, "metrics.csv", "x,y\n" * 300_000),
    "translations of a terabyte": lambda run, outside: os.truncate(run / "hypotheses.test.txt", 1 << 40),
    "a model of a terabyte": lambda run, outside: os.truncate(run / "translator.safetensors", 1 << 40),
    "a model cut off": lambda run, outside: os.truncate(run / "translator.safetensors", 5000),
    "no model but a checkpoint": lambda run, outside: (run / "translator.safetensors").unlink(),
    "a checkpoint with other settings": lambda run, outside: part(run, "settings", [STARTS]),
    "a checkpoint without progress": lambda run, outside: part(run, "progress", None),
    "a checkpoint with another description": lambda run, outside: part(run, "hyper_parameters", {"translator": {}}),
    "a checkpoint with other weights": lambda run, outside: part(run, "state_dict", {}),
    "a link to a file": lambda run, outside: replaced(run / "evaluation.json").symlink_to(outside / "victim"),
    "a link to a new file": lambda run, outside: replaced(run / "hypotheses.test.txt").symlink_to(outside / "new"),
    "a link to a folder": lambda run, outside: replaced(run / "attention").symlink_to(outside / "folder"),
    "a link of the settings": lambda run, outside: replaced(run / "config.yaml").symlink_to(outside / "victim"),
    "a link of the lock": lambda run, outside: replaced(run / ".evaluation.lock").symlink_to(outside / "new"),
    "a link to itself": lambda run, outside: replaced(run / "test.json").symlink_to(run / "test.json"),
    "a link to a device": lambda run, outside: replaced(run / "test.json").symlink_to("/dev/zero"),
    "a pipe as settings": lambda run, outside: os.mkfifo(replaced(run / "config.yaml")),
    "a pipe as a model": lambda run, outside: os.mkfifo(replaced(run / "translator.safetensors")),
    "a folder as results": lambda run, outside: replaced(run / "test.json").mkdir(),
    "settings of Hydra": lambda run, outside: beside(run, ".hydra/overrides.yaml", "- experiment=../../evil\n"),
    "a plugin of Hydra": lambda run, outside: beside(run, "hydra_plugins/evil.py", STARTS),
    "a module that Python imports": lambda run, outside: beside(run, "sitecustomize.py", STARTS),
    "an export that is none": lambda run, outside: beside(run, "export.json", "{}"),
}


# ---- the commands and their checks


class Watch:
    """Records forbidden actions of a process: an audit hook, which cannot be removed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.on = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or event not in FORBIDDEN:
            return
        if event == "ctypes.dlopen" and not str(arguments[0]).startswith("/tmp"):
            return
        self.seen.append(f"{event} {arguments!r:.200}")


def real_run(home: Path) -> Path:
    """Makes in `home` a finished small run, a copy of it, its corpus and cache, and files that nobody may change."""
    (home / "corpus").mkdir(parents=True)
    own = settings(corpus(home / "corpus"), loggers=["csv"], trainer__max_steps=2, training__validate_every=2)
    own["data"]["cache"] = str(home / "cache")
    run_training(home / "run", own)
    shutil.copyfile(home / "run" / "test.json", home / "run" / "evaluation.json")
    shutil.copytree(home / "run", home / "other")
    (home / "outside" / "folder").mkdir(parents=True)
    for name in ("victim", "folder/mine", ".bashrc"):
        (home / "outside" / name).write_text(f"export MINE={name}\n", encoding="utf-8")
    return home


def commands(home: Path, run: Path, work: Path) -> dict[str, list[str]]:
    """The arguments of the five commands that may get another user's run."""
    search = ["--method", "greedy", "--max-length", "5"]
    exact = ["--threads", "1", "--matmul-precision", "highest"]
    return {
        "translate": ["eins zwei", "--checkpoint", str(run), *search, *exact],
        "evaluate": [str(run), *search, *exact],
        "explain": ["eins zwei", "--checkpoint", str(run), "--output", f"{work}/page.html", *search],
        "export": ["safetensors", "--checkpoint", str(run), "--output", f"{work}/x.safetensors"],
        "compare": [str(home / "other"), str(run), "--trials", "40", "--resamples", "40"],
    }


def try_folder(home: Path, run: Path, work: Path, lies: bool, watch: Watch) -> list[str]:
    """Faults while the scripts use a hostile folder."""
    wrong: list[str] = []
    os.chdir(work)
    before = peak_memory()
    for name, words in commands(home, run, work).items():
        said, refused = _attempt(parse([name, *words]), watch)
        is_clear = refused is None or said.splitlines()[-1].startswith("error: ")
        if not is_clear or (refused is not None and ("debug=true" in refused or not lies)):
            wrong.append(f"{name}: a muddled line: {refused}")
        if SECRET in said:
            wrong.append(f"{name}: it tells a variable of the environment")
        if strange := {letter for letter in said if not letter.isprintable() and letter not in "\n\r"}:
            wrong.append(f"{name}: it prints the control characters {strange}")
    wrong += [f"it did {event}" for event in watch.seen]
    if (memory := peak_memory() - before) > MAX_MEMORY:
        wrong.append(f"it took {memory:,} bytes")
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    small = [path for path in files if path.stat().st_size < 1 << 24]
    wrong += [
        f"{path.name} tells a variable of the environment" for path in small if SECRET.encode() in path.read_bytes()
    ]
    return wrong + ["it ran code" for path in files if path.name == "ran"]


def _attempt(command: Callable[[], Any], watch: Watch) -> tuple[str, str | None]:
    """The output of a command, and the last line of it, which refused the folder."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    refused = None
    signal.alarm(MAX_SECONDS)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        watch.on = True
        try:
            command()
        except (Exception, SystemExit) as error:
            refused = describe(error)
            say(f"error: {refused}")
        watch.on = False
    signal.alarm(0)
    return out.buffer.getvalue().decode("utf-8", "backslashreplace"), refused  # type: ignore[attr-defined]


def try_folders(home: Path, names: list[str]) -> list[str]:
    """Makes a folder for each of these attacks from the run in `home`, and returns the faults."""
    torch.set_num_threads(1)
    outside, work = home / "outside", home / "work"
    # (With a GPU, its driver would make a cache in HOME.)
    os.environ |= {"HOME": str(outside), "LIES_SECRET": SECRET, "CUDA_CACHE_DISABLE": "1"}
    silence_lightning()
    watch, lost = Watch(), []
    kept = {folder: snapshot(folder) for folder in (outside, home / "other", home / "corpus")}
    for name in names:
        work.mkdir()
        run = Path(shutil.copytree(home / "run", work / "run"))
        LIES[name](run, outside)
        receiving, sending = os.pipe()
        if (child := os.fork()) == 0:
            os.close(receiving)
            wrong = try_folder(home, run, work, name != "nothing", watch)
            with os.fdopen(sending, "w") as answer:
                json.dump(wrong, answer)
            os._exit(0)
        os.close(sending)
        with os.fdopen(receiving) as answer:
            content = answer.read()
        _, status = os.waitpid(child, 0)
        wrong = json.loads(content) if content else [f"the process ended with {status}"]
        for folder, before in kept.items():
            if (now := snapshot(folder)) != before:
                wrong.append(f"{folder.name} was changed")
                kept[folder] = now
        lost += [f"{name}: {what}" for what in wrong]
        shutil.rmtree(work)
    return lost


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything in a folder: kinds, sizes, times, contents."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found
