"""`python -m tests.reliability`: all trials as often as the documentation states, and a table of their results.

This takes a quarter of an hour on one core. `python -m tests.reliability short` runs the trials of the tests and the
long tests (pytest -m long).
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


def main() -> int:
    os.environ["TRIALS"] = "short" if sys.argv[1:] == ["short"] else "full"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.jsonl")
        os.environ["TRIALS_REPORT"] = str(report)
        status = pytest.main(["-q", "--numprocesses=0", "-m", "long or not long", str(Path(__file__).parent)])
        lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    table = Table("promise", "tried", "lost", "test", box=SIMPLE)
    for line in lines:
        table.add_row(line["promise"], f"{line['tried']:,}", f"{line['lost']:,}", line["test"].split("/")[-1])
    Console(width=None if sys.stdout.isatty() else 200, markup=False).print(table)
    return int(status) or int(any(line["lost"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())
