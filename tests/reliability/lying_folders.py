"""Run folders full of lies, and what the scripts do with them: for `test_folders`.

`lie` changes one thing (seldom three) in a copy of a small real run, by a grammar of what a stranger could write:
every text field, every file and its kind. `try_folder` gives the folder to five scripts in a process of its own, which
watches what they do.
"""

import contextlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable, Iterator
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
TRACE = "FUZZ_TRACE" in os.environ  # tells each folder, and where a muddled line came from
MAX_SECONDS, MAX_MEMORY = 120, 1 << 30
FORBIDDEN = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.kill", "ctypes.dlopen"),
    *("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request", "pty.spawn"),
)


# ---- the grammar of lies


def texts(outside: Path) -> list[str]:
    """What a stranger might write where a text belongs."""
    paths = [
        str(outside / "victim"),
        "../../outside/victim",
        f"local://{outside}/victim",
        f"file://{outside}",
        "~/victim",
    ]
    code = [
        "_target_: os.system",
        "!!python/object/apply:os.system [touch ran]",
        "__import__('os').system('touch ran')",
    ]
    secrets = [
        "${oc.env:FUZZ_SECRET}",
        "$FUZZ_SECRET",
        "%FUZZ_SECRET%",
        "{os.environ[FUZZ_SECRET]}",
        "${hydra:runtime.cwd}",
    ]
    strange = [
        "",
        " ",
        "\0",
        "\x1b]0;owned\x07",
        "\u202ex",
        "\ud800",
        "a\nb",
        "x" * 100_000,
        "???",
        "null",
        "1e999",
        "..",
        "/",
    ]
    places = ["https://example.org/x", "apt:libreoffice-help", "/dev/zero", "/dev/stdin", "/proc/self/environ"]
    return [*paths, *code, *secrets, *strange, *places]


def numbers() -> list[Any]:
    return [0, 1, -1, 2**31, 2**62, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), -float("inf"), True, False]


def others(outside: Path) -> list[Any]:
    target = {"_target_": "os.system", "_args_": ["touch ran"]}
    return [None, [], {}, [[]], {"": {}}, target, {"x": [target]}, [str(outside / "victim")], list(range(5000))]


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in nested dicts and lists, sections too."""
    yield path
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree[:5]) if isinstance(tree, list) else ()
    for key, value in inside:
        yield from leaves(value, (*path, key))


def changed(tree: Any, chance: random.Random, outside: Path) -> Any:
    """The same data with one field replaced, taken away, renamed or added."""
    path = chance.choice(list(leaves(tree)))
    value = chance.choice([*texts(outside), *texts(outside), *numbers(), *others(outside)])
    if not path:
        return value
    *above, key = path
    section = tree
    for name in above:
        section = section[name]
    how = chance.random()
    if how < 0.8 or not isinstance(section, dict):
        section[key] = value
    elif how < 0.9:
        del section[key]
    else:
        section[value if isinstance(value, str) else "zzz"] = section[key]
    return tree


def garbled(content: bytes, chance: random.Random) -> bytes:
    """Content of a file that is broken as such."""
    bomb = "".join(f"{name}: &{name} [{f'*{last}, ' * 9}]\n" for last, name in zip("abcdefgh", "bcdefghi", strict=True))
    place = chance.randrange(len(content) + 1)
    return chance.choice([
        b"", b"\0" * 100, b"\xff\xfe\0", b"[" * 100_000, b'{"a":' * 50_000, f"a: &a [x]\n{bomb}".encode(), b"1" * 5000,
        content[:place], content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :], content * 3,
        b"data: !!python/object/apply:os.system ['touch ran']\n", b"- 1\n", b"42", b'"x"', b"x,y\n" * 300_000,
    ])  # fmt: skip


def regular(path: Path) -> Path:
    """A path that an earlier lie has not made into something that cannot be read, or leads elsewhere."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 24:
        raise ValueError(f"{path} is no ordinary file any more")
    return path


def lie_in_text(run: Path, chance: random.Random, outside: Path) -> str:
    path = regular(chance.choice([run / name for name in ("config.yaml", "test.json", "evaluation.json")]))
    tree = (
        yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.suffix == ".yaml"
        else json.loads(path.read_text(encoding="utf-8"))
    )
    tree = changed(tree, chance, outside)
    with contextlib.suppress(yaml.YAMLError, UnicodeEncodeError):
        path.write_text(
            yaml.safe_dump(tree, sort_keys=False) if path.suffix == ".yaml" else json.dumps(tree), encoding="utf-8"
        )
    return f"a field of {path.name}"


def lie_in_checkpoint(run: Path, chance: random.Random, outside: Path) -> str:
    path = regular(run / "checkpoints" / chance.choice(["last.ckpt", "last.ckpt", "best.ckpt"]))
    checkpoint = torch.load(path, weights_only=True)
    part = chance.choice(
        [*["settings"] * 3, "progress", "optimizer", "averaging", "seconds", "sharding", "hyper_parameters", ""]
    )
    if part:
        checkpoint[part] = changed(checkpoint[part], chance, outside)
    else:
        checkpoint = changed(checkpoint, chance, outside)
    torch.save(checkpoint, path)
    return f"{part or 'a part'} of {path.name}"


def lie_in_bytes(run: Path, chance: random.Random, outside: Path) -> str:
    path = chance.choice([path for path in sorted(run.rglob("*")) if path.is_file()])
    path = regular(path)
    path.write_bytes(garbled(path.read_bytes(), chance))
    return f"the bytes of {path.name}"


def lie_in_kind(run: Path, chance: random.Random, outside: Path) -> str:
    """Something else stands where a file or a folder of a run stands."""
    path = chance.choice([*sorted(run.rglob("*")), run / "checkpoints", run / ".lock", run / "wandb"])
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, Callable[[], Any]] = {
        "a link to a file": lambda: path.symlink_to(outside / "victim"),
        "a link to a folder": lambda: path.symlink_to(outside / "folder"),
        "a link to nothing": lambda: path.symlink_to(outside / "new"),
        "a link to itself": lambda: path.symlink_to(path),
        "a link to a device": lambda: path.symlink_to("/dev/zero"),
        "a link up": lambda: path.symlink_to(".."),
        "a FIFO": lambda: os.mkfifo(path),
        "a folder": lambda: path.mkdir(),
        "nothing": lambda: None,
        "a large file": lambda: [path.touch(), os.truncate(path, 1 << 40)],
        "a socket": lambda: socket.socket(socket.AF_UNIX).bind(os.path.relpath(path)),
    }
    name = chance.choice(list(kinds))
    with contextlib.suppress(OSError):  # a socket whose path is too long
        kinds[name]()
    return f"{name} as {path.relative_to(run)}"


def lie_beside(run: Path, chance: random.Random, outside: Path) -> str:
    """A file that no run has, which some program might read."""
    hydra_files = [".hydra/overrides.yaml", ".hydra/config.yaml", ".hydra/hydra.yaml", "hydra_plugins/evil.py"]
    name = chance.choice([
        *hydra_files, "sitecustomize.py", "conftest.py", "export.json", "checkpoints/best-v1.ckpt", ".env",
        "hypotheses.train.txt", "CACHEDIR.TAG", "hparams.yaml",
    ])  # fmt: skip
    (run / name).parent.mkdir(exist_ok=True)
    content = chance.choice([*texts(outside), "- experiment=../../evil\n", "import os; os.system('touch ran')", "{}"])
    if not (run / name).is_symlink():
        (run / name).write_bytes(content.encode("utf-8", "replace"))
    return f"{name} with {content[:30]!r}"


LIES = (
    lie_in_text,
    lie_in_text,
    lie_in_checkpoint,
    lie_in_checkpoint,
    lie_in_bytes,
    lie_in_kind,
    lie_in_kind,
    lie_beside,
)
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, TypeError, yaml.YAMLError, pickle.UnpicklingError)


def lie(run: Path, chance: random.Random, outside: Path) -> str:
    """Changes a run's folder; says what was done to it."""
    told = []
    for _ in range(chance.choice((1, 1, 1, 1, 3))):
        with contextlib.suppress(*UNREADABLE):  # what is broken already cannot be changed further
            told.append(chance.choice(LIES)(run, chance, outside))
    return "; ".join(told)


# ---- what the scripts do with it


class Watch:
    """Notes what a process must not do: an audit hook, which cannot be taken away again."""

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
    """Makes in `home` a small run that has ended, a copy of it, its corpus and cache, and what nobody may change."""
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
    """What is typed for the five commands that a run's folder of a stranger may be given to."""
    search = ["--method", "greedy", "--max-length", "5"]
    exact = ["--threads", "1", "--matmul-precision", "highest"]
    return {
        "translate": ["eins zwei", "--checkpoint", str(run), *search, *exact],
        "evaluate": [str(run), *search, *exact],
        "explain": ["eins zwei", "--checkpoint", str(run), "--output", f"{work}/page.html", *search],
        "export": ["safetensors", "--checkpoint", str(run), "--output", f"{work}/x.safetensors"],
        "compare": [str(home / "other"), str(run), "--trials", "40", "--resamples", "40"],
    }


def try_folder(home: Path, run: Path, work: Path, told: str, watch: Watch) -> list[str]:
    """What goes wrong while the scripts use a folder to which `told` was done."""
    wrong: list[str] = []
    os.chdir(work)
    before = peak_memory()
    for name, words in commands(home, run, work).items():
        said, refused = _attempt(parse([name, *words]), watch)
        if refused is not None and (said.count("\n") != 1 or "debug=true" in refused or not told):
            wrong.append(f"{name}: a muddled line: {refused}")
        if TRACE:
            os.write(1, f"  {name}: {refused}\n"[:300].encode("utf-8", "replace"))
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
    """All that a command prints, and what refused it; then only that line."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    refused = None
    signal.alarm(MAX_SECONDS)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        watch.on = True
        try:
            command()
        except (Exception, SystemExit) as error:
            refused = describe(error)
            if TRACE and "debug=true" in refused:
                refused += traceback.format_exc()[-900:]
            out.seek(0)
            out.truncate()
            say(f"error: {describe(error)}")
        watch.on = False
    signal.alarm(0)
    return out.buffer.getvalue().decode("utf-8", "backslashreplace"), refused  # type: ignore[attr-defined]


def try_folders(home: Path, first: int, number: int) -> list[str]:
    """Makes so many folders of lies from the run in `home`, and tells what went wrong with each."""
    torch.set_num_threads(1)
    outside, work = home / "outside", home / "work"
    # (Where there is a GPU, its driver would make a cache in HOME.)
    os.environ |= {"HOME": str(outside), "FUZZ_SECRET": SECRET, "CUDA_CACHE_DISABLE": "1"}
    silence_lightning()
    watch, lost = Watch(), []
    kept = {folder: snapshot(folder) for folder in (outside, home / "other", home / "corpus")}
    for seed in range(first, first + number):
        work.mkdir()
        run = Path(shutil.copytree(home / "run", work / "run"))
        # The first is the real one.
        told = lie(run, random.Random(seed), outside) if seed else ""
        receiving, sending = os.pipe()
        if (child := os.fork()) == 0:
            os.close(receiving)
            wrong = try_folder(home, run, work, told, watch)
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
        lost += [f"folder {seed} ({told}): {what}" for what in wrong]
        if TRACE:
            print(seed, told, wrong, flush=True)
        shutil.rmtree(work)
    return lost


def snapshot(folder: Path) -> dict[str, Any]:
    """All that is in a folder: kinds, sizes, times, contents."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found
