"""The house keeps its order: no room imports upward, Hydra stays in scripts/, and it can be read in a sitting."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "transformer"
# Each room and what it may import of ours: the ground first.
ROOMS = {
    "settings": set(),
    "storage": set(),
    "kernels": set(),
    "machine": set(),
    "modes": set(),
    "model": {"kernels"},
    "evaluation": set(),
    "corpora": {"storage"},
    "data": {"storage", "corpora"},
    "checkpoint": {"model", "data", "settings", "storage"},
    "regularization": {"model", "data", "storage", "kernels"},
    "optimization": {"regularization"},
    "inference": {"checkpoint", "model", "data", "settings", "kernels", "machine", "modes"},
    "visualization": {"inference", "model", "data", "storage", "modes"},
    "resident": {"data"},
    "refusals": {"model", "data", "settings", "storage"},
    "export": {"checkpoint", "inference", "model", "data", "settings", "storage", "machine"},
    "reporting": {"inference", "evaluation", "visualization", "data", "settings", "storage"},
    "doctor": {"reporting", "model", "data", "storage", "kernels", "machine"},
    "callbacks": {"inference", "optimization", "evaluation", "checkpoint", "data", "settings", "storage", "machine"},
    "training": {
        "optimization", "regularization", "callbacks", "reporting", "checkpoint", "inference", "evaluation",
        "visualization", "model", "data", "settings", "storage", "kernels", "machine", "refusals", "resident",
    },
}  # fmt: skip


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            names.add(node.module or "")
    return names


def files(room: str) -> list[Path]:
    return [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").exists() else sorted((PACKAGE / room).glob("*.py"))


def test_every_room_is_known() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.name != "__init__.py" and not path.name.startswith("__")}
    assert rooms <= ROOMS.keys()


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_upward(room: str) -> None:
    for path in files(room):
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("transformer.")}
        assert ours <= ROOMS[room] | {room}, path
        if room not in ("training", "callbacks", "reporting", "refusals") and path.name != "datamodule.py":
            assert not any(name.split(".")[0] == "lightning" for name in imported(path)), path


def test_nothing_in_the_package_imports_hydra() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not any(name.split(".")[0] in ("hydra", "omegaconf") for name in imported(path)), path


def test_the_modules_of_a_room_do_not_import_each_other_in_circles() -> None:
    for room in ROOMS:
        graph = {
            f"transformer.{room}.{path.stem}": {n for n in imported(path) if n.startswith(f"transformer.{room}.")}
            for path in files(room)
        }
        while graph:
            leaves = {name for name, needs in graph.items() if not needs & graph.keys()}
            assert leaves, f"a circle in {room}: {sorted(graph)}"
            graph = {name: needs for name, needs in graph.items() if name not in leaves}


def lines(room: str) -> int:
    return sum(len(path.read_text().splitlines()) for path in files(room))


def test_what_a_reader_came_for_can_be_read_in_a_sitting() -> None:
    assert lines("model") <= 700
    assert sum(lines(room) for room in ("model", "data", "inference", "training")) <= 2000


def test_the_readme_names_only_files_that_are_there() -> None:
    import re

    readme = (PROJECT / "README.md").read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", readme):
        if not link.startswith("http"):
            assert (PROJECT / link).exists(), link
