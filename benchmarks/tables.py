"""Writes the tables of docs from the results of measurements: `python benchmarks/tables.py`.

A file in benchmarks/results has the records of one subject. A record is one measurement of one claim: the machine, the
versions, the date, the command and the values. A page shows the current records of a claim between two comments, which
name subject and claim. Older records of the same claim stay in the file.
"""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
# The fields of a record. A value that was not recorded is null.
FIELDS = tuple("claim current machine versions commit date seeds command unit conditions values".split())
# Fields that are shown below a table if they are the same for all its records.
SHOWN = ("unit", "machine", "commit", "date")
MARKED = re.compile(r"(<!-- table: (\w+)/([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Record = dict[str, Any]


def read(subject: str) -> list[Record]:
    return json.loads((RESULTS / f"{subject}.json").read_text(encoding="utf-8"))


def labels(records: list[Record]) -> list[str]:
    """The first cell of each row."""
    return [next(iter(row.values())) for record in records for row in record["values"]]


def table(records: list[Record]) -> str:
    """All rows; with a column for the machine if two rows have the same label."""
    several = len({*labels(records)}) < len(labels(records))
    rows = [row | ({"machine": record["machine"]} if several else {}) for record in records for row in record["values"]]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([row.get(column, "") for column in columns] for row in rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([head, "|---" * len(columns) + "|", *body])


def caption(subject: str, records: list[Record]) -> str:
    """The fields that all records share, and a link to the rest."""
    common = [records[0][key] for key in SHOWN if len({record[key] for record in records}) == 1]
    text = "; ".join([*filter(None, common), f"[data and command](../benchmarks/results/{subject}.json)"])
    return textwrap.fill(f"{text[0].upper()}{text[1:]}.", 120, break_long_words=False, break_on_hyphens=False)


def with_tables(page: str) -> str:
    """The text of a page with new tables."""

    def made(marked: re.Match[str]) -> str:
        start, subject, claim, end = marked.groups()
        records = [record for record in read(subject) if record["claim"] == claim and record["current"]]
        if not records:
            raise ValueError(f"benchmarks/results/{subject}.json has no current record of {claim}")
        return f"{start}\n{table(records)}\n\n{caption(subject, records)}\n\n{end}"

    return MARKED.sub(made, page)


if __name__ == "__main__":
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (new := with_tables(text)) != text:
            path.write_text(new, encoding="utf-8")
