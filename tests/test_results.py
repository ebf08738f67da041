"""Measurements are data (benchmarks/results), and the tables of docs are made from them."""

from pathlib import Path

import pytest

from benchmarks.tables import DOCS, FIELDS, MARKED, RESULTS, labels, read, with_tables

PAGES = {path: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
SUBJECTS = sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_tables_of_a_page_are_those_of_the_data(path: Path) -> None:
    assert with_tables(PAGES[path]) == PAGES[path], "benchmarks/results has changed: python benchmarks/tables.py"


def test_every_current_claim_is_in_one_page() -> None:
    shown = [marked.group(2, 3) for text in PAGES.values() for marked in MARKED.finditer(text)]
    current = {(subject, record["claim"]) for subject in SUBJECTS for record in read(subject) if record["current"]}
    assert sorted(shown) == sorted(current)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_record_has_all_fields_and_one_current_number_a_claim(subject: str) -> None:
    current: set[tuple[str, str, str]] = set()
    for record in read(subject):
        assert tuple(record) == FIELDS
        assert record["values"]
        for label in labels([record]) if record["current"] else []:
            key = (record["claim"], record["machine"], label)
            assert key not in current
            current.add(key)
