"""Trials: the same thing many times, with chance in it, and nothing may be lost.

`TRIALS=full` runs each as often as the documentation states; without it, a short version runs. `TRIALS_REPORT=FILE`
appends a line of JSON for each: the promise, the test, the number of trials, and the number of losses.
"""

import json
import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def trials(short: T, full: T) -> T:
    """The number of trials to run now, or the trials."""
    return full if os.environ.get("TRIALS") == "full" else short


def report(promise: str, tried: int, lost: list[str]) -> None:
    """Reports the results of trials of a promise; fails if there were none, or if something was lost."""
    test = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0]
    line = {"promise": promise, "test": test, "tried": tried, "lost": len(lost)}
    print(json.dumps(line))
    if path := os.environ.get("TRIALS_REPORT"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    assert tried > 0
    assert not lost, f"{len(lost)} of {tried}: {lost[:5]}"
