"""Compares runs on the same sentences: `python scripts/compare.py runs=[A,B,…] [split=test]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.errors import UsageError
from transformer.cli.launch import launch
from transformer.cli.runs import check_output

if TYPE_CHECKING:
    from transformer.evaluation.compare import CompareSettings


def read(config: dict[str, Any]) -> CompareSettings:
    from transformer.config import from_dict
    from transformer.evaluation.compare import CompareSettings

    if config["runs"] is None:
        raise UsageError("runs is not set: name two or more, as runs=[A,B]")
    settings = from_dict(CompareSettings, {key: value for key, value in config.items() if key != "debug"}, "")
    if settings.output:
        check_output(settings.output, folder=True)
    return settings


def compare(settings: CompareSettings) -> None:
    # Importing torch takes seconds, which a wrong key need not wait for.
    from transformer.evaluation.compare import compare_runs
    from transformer.visualization.comparison import draw_comparison

    comparison = compare_runs(settings)
    comparison.show()
    if settings.output:
        file = Path(settings.output) / "comparison.json"
        comparison.write(file)
        intervals = {
            metric: {name: (one.score, one.interval) for name, one in row.items()}
            for metric, row in comparison.tested.items()
        }
        draw_comparison(intervals, file.with_suffix(".png"))


if __name__ == "__main__":
    launch(read, compare, config_name="compare")
