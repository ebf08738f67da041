"""Hostile files load to the same tensors or give one line; none of their code runs, and they take no memory."""

import ast
import copy
import pickle
import random
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.reliability import report, trials
from tests.reliability.children import SHORT, ChildDiedError, in_child, load_each, training_content, weights_digest
from tests.reliability.hostile import HOSTILE, parts, safe_file, translator
from transformer import Translator
from transformer.inference.untrusted import (
    MAX_DESCRIPTION,
    MAX_TENSORS,
    check_plain,
    check_tensors,
    read_checkpoint,
    read_safetensors,
)

PROJECT = Path(__file__).parents[2]
SOME = 15  # the number of files that one process loads
# Loading may take 16 times the file's size (for a .ckpt 100 times) and this number of bytes. (The tables of positions
# of an undamaged file may take more.)
BOUND = 64 << 20


@pytest.fixture(scope="module")
def good() -> str:
    return weights_digest(translator())


def loaded(paths: list[Path], use: bool = False) -> list[tuple[Path, str, str, int]]:
    """The results of loading files one after another in one process, the smallest first, which may take the least
    memory.

    Raises ChildDiedError or RuntimeError if one of them ends it.
    """
    good = paths[0].with_name("good.safetensors")
    translator().save(good)
    paths = sorted(paths, key=lambda path: path.stat().st_size)
    return [(path, *taken) for path, taken in zip(paths, in_child(load_each, good, paths, use), strict=True)]


def judged(path: Path, outcome: str, said: str, memory: int, good: str) -> str | None:
    """The fault in the result of a file, or None."""
    if outcome == "loaded" and said != good:
        return f"{path.name} was loaded, but to something else"
    if outcome == "refused" and not (said.startswith(f"{path} is not a usable checkpoint") and said.isprintable()):
        return f"{path.name} was refused in a strange line: {said!r:.300}"
    if memory > BOUND + (100 if path.suffix == ".ckpt" else 16) * path.stat().st_size:
        return f"{path.name} of {path.stat().st_size:,} bytes took {memory:,} bytes: {outcome}"
    return None


@pytest.mark.long
def test_hostile_files_run_nothing_and_are_refused_in_one_line_and_little_memory(tmp_path: Path, good: str) -> None:
    names, lost = list(HOSTILE), []
    for some in (names[number : number + SOME] for number in range(0, len(names), SOME)):
        paths = [tmp_path / name / name for name in some]
        for path in paths:
            path.parent.mkdir()
            HOSTILE[path.name](path)
        try:
            lost += filter(None, [judged(*taken, good) for taken in loaded(paths)])
        except (ChildDiedError, RuntimeError) as error:
            lost.append(f"{some}: {error}")
        for path in paths:
            path.unlink()
            if (path.parent / "ran").exists():
                lost.append(f"{path.name} ran its code")
    report("hostile files are refused in one line, run nothing and take little memory", len(HOSTILE), lost)


@pytest.mark.long
def test_tokenizers_that_were_tampered_with_crash_nothing(tmp_path: Path) -> None:
    plain, content = parts()
    whole, chance, lost, tried = content["tokenizer.source"], random.Random(4), [], trials(30, 1000)
    # Pieces, settings and the first tables of characters; then any place in the tables.
    head, paths = 4000, []
    for number in range(tried):
        bytes = whole.clone()
        for _ in range(chance.choice((1, 1, 4, 30))):
            bytes[chance.randrange(head if number % 3 else len(bytes))] = chance.randrange(256)
        if number % 10 == 0:
            bytes = bytes[: chance.randrange(len(bytes))]
        paths.append(tmp_path / f"{number}.safetensors")
        safe_file(paths[-1], plain, content | {"tokenizer.source": bytes, "tokenizer.target": bytes.clone()})
    for some in (paths[number : number + SOME] for number in range(0, tried, SOME)):
        try:
            for path, outcome, said, memory in loaded(some, use=True):
                if (outcome == "refused" and not said.isprintable()) or memory > BOUND + 16 * path.stat().st_size:
                    lost.append(f"{path.name}: {said}, {memory:,} bytes")
        except (ChildDiedError, RuntimeError) as error:
            lost.append(f"{[path.name for path in some]}: {error}")
    report("tampered tokenizers are refused or harmless", tried, lost)


@pytest.mark.parametrize("name", ["t.safetensors", "t.ckpt"])
def test_cut_or_with_bytes_flipped_a_file_is_refused_or_the_same(tmp_path: Path, name: str, good: str) -> None:
    path = tmp_path / name
    translator().save(path)
    if path.suffix == ".ckpt":
        torch.save(training_content(translator()), path)
    whole, chance, lost = path.read_bytes(), random.Random(5), []
    cuts = [chance.randrange(len(whole)) for _ in range(trials(10, 50))]
    flips = [chance.randrange(len(whole)) for _ in range(trials(40, 200))]
    damaged = {f"cut at {place}": whole[:place] for place in cuts}
    for place in flips:
        damaged[f"flipped at {place}"] = (
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
    for label, content in damaged.items():
        path.write_bytes(content)
        try:
            if weights_digest(Translator.load(path)) != good or label.startswith("cut"):
                lost.append(f"{label}: it was loaded")
        except ValueError as error:
            if not (str(error).startswith(f"{path} is not a usable checkpoint") and str(error).isprintable()):
                lost.append(f"{label}: {error}")
        except BaseException as error:
            lost.append(f"{label}: {type(error).__name__} {error}")
    report(f"a damaged {path.suffix} is refused in one line or loads the same", len(damaged), lost)


def test_each_bound_on_an_archive_holds_without_the_others(tmp_path: Path) -> None:
    """Most hostile files break several bounds at once; each file here breaks a single bound."""
    path = tmp_path / "x.ckpt"

    def refusal(content: bytes, compression: int = zipfile.ZIP_STORED, copies: int = 0) -> str:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/version", "3")
            archive.writestr("archive/data.pkl", content, compression)
            archive.writestr("archive/data/0", bytes(100_000))
            for number in range(1, copies + 1):  # other names for the same bytes
                again = copy.copy(archive.getinfo("archive/data/0"))
                again.filename = f"archive/data/{number}"
                archive.filelist.append(again)
        with pytest.raises(ValueError, match="it ") as caught:
            read_checkpoint(path)
        return str(caught.value)

    small = pickle.dumps({"x": [1.5] * 100}, protocol=2)
    assert refusal(small, copies=3) == "it declares more data than it holds"
    large = pickle.dumps({"x": "y" * 1_000_000}, protocol=2)
    assert refusal(large, zipfile.ZIP_DEFLATED) == "it declares more data than it holds"


def test_each_bound_on_a_description_and_its_tensors_holds_without_the_others(tmp_path: Path) -> None:
    shared: list[Any] = []
    for _ in range(40):
        shared = [shared, shared]
    letters = "x" * (MAX_DESCRIPTION // 2 + 1)
    check_plain({"a": [0] * 992, "b": [letters, 1.5, True, None], "c": 1})
    for description in ([0] * 1000, shared, [letters, letters], {letters: 1, f"{letters}y": 1}):
        with pytest.raises(ValueError, match="its description is too large"):
            check_plain(description)
    for description in ({"a": {1: 2}}, {"a": (1,)}, [b"x"], {1.5}):
        with pytest.raises(ValueError, match="its description is not plain data"):
            check_plain(description)

    path = tmp_path / "t.safetensors"
    for text, reason in (
        (f'{{"a": "{letters}{letters}"}}', "its description is too large"),
        ("[]", "it does not describe a translator"),
        ("[" * 50_000, "truncated or no safetensors file"),
    ):
        safetensors.torch.save_file({"x": torch.zeros(1)}, path, {"translator": text})
        with pytest.raises(ValueError, match=reason):
            read_safetensors(path)

    path.write_bytes(bytes(4 * MAX_TENSORS + 4))
    check_tensors(path, {str(number): torch.zeros(1) for number in range(MAX_TENSORS)})
    for tensors, reason in (
        ({"x": torch.zeros(2, 3).T}, "x is not a plain one"),
        ({"x": torch.zeros(2, 3).to_sparse()}, "x is not a plain one"),
        ({"x": torch.zeros(1_000_000, 0)}, "x is empty"),
        ({"x": torch.zeros(MAX_TENSORS + 2)}, "it declares more tensors than it holds"),
        (dict.fromkeys(map(str, range(MAX_TENSORS + 1)), torch.zeros(1)), "it declares more tensors than it holds"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_tensors(path, tensors)


def test_safetensors_are_loaded_without_any_unpickling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: str
) -> None:
    path = tmp_path / "t.safetensors"
    translator().save(path)

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("unpickled")

    for module, names in ((pickle, ("load", "loads", "Unpickler")), (torch, ("load",))):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    assert weights_digest(Translator.load(path)) == good


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_weights_too_large_to_compute_with_are_reported_when_they_are_used(tmp_path: Path, method: str) -> None:
    plain, content = parts()
    huge = {name: tensor * 1e38 if tensor.is_floating_point() else tensor for name, tensor in content.items()}
    safe_file(tmp_path / "t.safetensors", plain, huge)
    with pytest.raises(ValueError, match="the model's scores are not finite"):
        Translator.load(tmp_path / "t.safetensors").translate(["ja", "Der Hund."], replace(SHORT, method=method))


def dotted(node: ast.AST) -> str:
    """A written name without its other characters."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_nothing_in_the_program_makes_an_object_from_a_name_or_code_from_a_file() -> None:
    """Except names in our own code and configs: of a `Registry`, of the package, and of Hydra's callback."""
    forbidden = "eval exec compile __import__".split()
    anywhere = "instantiate import_module get_class get_object load_from_checkpoint unsafe_load Unpickler".split()
    modules = "importlib hydra.utils cloudpickle dill joblib marshal shelve".split()
    by_own_names = {"transformer/config.py", "transformer/__init__.py"}
    required = {"weights_only": True, "allow_pickle": False, "shell": False}
    files = [*PROJECT.glob("transformer/**/*.py"), *PROJECT.glob("scripts/*.py")]
    assert len(files) > 30
    for path in files:
        text = path.read_text(encoding="utf-8")
        if path.relative_to(PROJECT).as_posix() in by_own_names:
            assert text.count("importlib") == text.count("import_module") + 1 == 2, path
            text = text.replace("import importlib\n", "\n").replace("importlib.import_module", "imported")
        tree = ast.parse(text)
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        safe = {node.name for node in classes if [dotted(base) for base in node.bases] == ["yaml.SafeLoader"]}
        for node in ast.walk(tree):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert getattr(node, "module", None) not in modules, where
                assert not {alias.name for alias in node.names} & {*modules, *anywhere}, where
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                assert name not in forbidden, where
                assert name.rpartition(".")[2] not in anywhere, where
                assert name not in ("pickle.load", "pickle.loads", "numpy.load"), where
                assert name != "yaml.load" or (len(node.args) == 2 and dotted(node.args[1]) in safe), where
                arguments = {argument.arg: argument.value for argument in node.keywords}
                for key, value in required.items() if not name.endswith(".save_checkpoint") else ():
                    given = arguments.get(key)
                    assert given is None or (isinstance(given, ast.Constant) and given.value is value), where
                assert name != "torch.load" or "weights_only" in arguments, where
    configs = "\n".join(path.read_text(encoding="utf-8") for path in PROJECT.glob("configs/**/*.yaml"))
    assert re.findall(r"_target_.*", configs) == ["_target_: transformer.cli.sweep.SweepTable}"]
