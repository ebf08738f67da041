"""The entries of `transformer/` keep their order: none imports a later one, imports form no cycle, and only the command
line imports Hydra. Links and counts in the documents are right."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import transformer

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "transformer"
# In the order of docs/architecture.md: each may import only those before it.
ENTRIES = (
    *("config", "machine", "device", "files", "processes", "signals", "printing", "run", "kernels", "model", "data"),
    *("inference", "evaluation", "training", "tools", "cli", "__main__"),
)
FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in FILES}


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports, also late; `from package import module` names the module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES
            names |= inner or {node.module or ""}
    return frozenset(names)


def order(module: str) -> int:
    return ENTRIES.index(module.split(".")[1])


def test_every_entry_is_known() -> None:
    entries = {path.stem for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "py.typed")}
    assert entries == {*ENTRIES, "__init__"}


def test_help_and_completion_know_the_public_names() -> None:
    assert {"ModelConfig", "Transformer", "Translator"} == {*transformer.__all__} <= {*dir(transformer)}


@pytest.mark.parametrize("path", FILES[1:], ids=module_name)
def test_nothing_imports_a_later_entry(path: Path) -> None:
    own = order(module_name(path))
    assert not {name for name in imported(path) if name.startswith("transformer.") and order(name) > own}


def test_no_imports_form_a_cycle() -> None:
    graph = {module_name(path): {n for n in imported(path) if n.startswith("transformer.")} for path in FILES[1:]}
    packages = {module_name(path) for path in FILES if path.name == "__init__.py"}
    # A package's own modules do not need its __init__, which collects names from them.
    graph = {name: needs - {name.rpartition(".")[0]} for name, needs in graph.items() if name not in packages}
    while graph:
        leaves = {name for name, needs in graph.items() if not needs & graph.keys()}
        assert leaves, f"a cycle: {sorted(graph)}"
        graph = {name: needs for name, needs in graph.items() if name not in leaves}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_the_command_line_imports_hydra(path: Path) -> None:
    if "cli" not in path.parts:
        assert not {name.split(".")[0] for name in imported(path)} & {"hydra", "omegaconf", "cyclopts"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_training_and_the_datamodule_import_lightning(path: Path) -> None:
    if path.name not in ("datamodule.py", "loggers.py") and not {"training", "cli"} & set(path.parts):
        assert "lightning" not in {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_defines_first_what_it_uses_further_down(path: Path) -> None:
    definitions = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(node, "name")]
    uses = {
        node.name: {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
        for node in definitions
    }

    def reached(name: str) -> set[str]:
        found, new = set[str](), {name}
        while new := {used for one in new for used in uses[one] & uses.keys()} - found:
            found |= new
        return found

    for place, node in enumerate(definitions):
        later = uses[node.name] & {other.name for other in definitions[place + 1 :]}
        # Two definitions that call each other have no order.
        assert not {name for name in later if node.name not in reached(name)}, node.name


def anchors(document: Path) -> set[str]:
    """The headings of a document, as in links: `## Use it` is #use-it."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "name", [str(path.relative_to(PROJECT)) for pattern in ("*.md", "docs/*.md") for path in PROJECT.glob(pattern)]
)
def test_documents_link_only_to_files_and_headings_that_are_there(name: str) -> None:
    document = PROJECT / name
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if not link.startswith("http"):
            assert (document.parent / path).exists(), link
            assert not anchor or anchor in anchors(document.parent / path if path else document), link


def test_the_index_of_the_documentation_names_every_document() -> None:
    index = (PROJECT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [
        p.name for p in PROJECT.glob("docs/*.md") if p.name != "README.md" and f"[{p.name}]({p.name})" not in index
    ]
    assert missing == []


def test_the_readme_says_how_many_lines_its_sitting_takes() -> None:
    path = "training/module model/transformer model/layers model/attention training/loss inference/search"
    lines = sum(len((PACKAGE / f"{name}.py").read_text(encoding="utf-8").splitlines()) for name in path.split())
    [number] = re.findall(r"about ([\d,]+) lines", (PROJECT / "README.md").read_text(encoding="utf-8"))
    assert abs(int(number.replace(",", "")) - lines) <= 50


def test_the_architecture_says_how_many_lines_each_file_of_the_book_has() -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[.*?\]\(\.\./(.*?)\) \| (\d+) \|", page, re.MULTILINE)
    assert rows
    for path, number in rows:
        lines = len((PROJECT / path).read_text(encoding="utf-8").splitlines())
        assert abs(int(number) - lines) <= 5 + lines // 10, f"{path} has {lines} lines"


@pytest.mark.parametrize("page", [path.name for path in PROJECT.glob("docs/*.md")])
def test_the_pages_name_only_tests_that_are_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (PROJECT / "docs" / page).read_text(encoding="utf-8"))
    assert named or page != "sources.md"
    for file, test in named:
        assert f"\ndef {test}(" in (PROJECT / file).read_text(encoding="utf-8"), (file, test)
