"""Trials: the same thing many times over, with chance in it, and nothing may be lost.

`TRIALS=full` runs each as often as is promised, without it a short version. `TRIALS_REPORT=FILE` appends a line of JSON
for each: what is promised, the test, how often it was tried and how often something was lost.
"""

import json
import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def trials(short: T, full: T) -> T:
    """How many trials there are now, or which."""
    return full if os.environ.get("TRIALS") == "full" else short


def report(promise: str, tried: int, lost: list[str]) -> None:
    """Tells how the trials of a promise went; fails unless there were some and all went well."""
    test = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0]
    line = {"promise": promise, "test": test, "tried": tried, "lost": len(lost)}
    print(json.dumps(line))
    if path := os.environ.get("TRIALS_REPORT"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    assert tried > 0
    assert not lost, f"{len(lost)} of {tried}: {lost[:5]}"
