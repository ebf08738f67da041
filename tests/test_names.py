"""Tests of the tests: a name is a sentence that fits into a line, and no file of tests needs another one."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py"))


@cache
def code(file: str) -> list[ast.AST]:
    """All that stands in a file of tests."""
    return list(ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8"))))


@pytest.mark.parametrize("file", FILES)
def test_the_names_of_tests_have_fewer_than_80_characters(file: str) -> None:
    functions = [node.name for node in code(file) if isinstance(node, ast.FunctionDef)]
    assert [name for name in functions if name.startswith("test_") and len(name) >= 80] == []


@pytest.mark.parametrize("file", FILES)
def test_no_file_imports_a_file_of_tests_or_of_fixtures(file: str) -> None:
    modules = set()
    for node in code(file):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written out in full"
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    local = {module.split(".")[-1] for module in modules if module and module.startswith("tests")}
    assert {name for name in local if name.startswith("test_") or name == "conftest"} == set()
