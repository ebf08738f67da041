"""Compares runs on the same sentences: `python scripts/compare.py runs=[A,B,…] [split=test]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.launch import launch

if TYPE_CHECKING:
    from transformer.evaluation.compare_runs import CompareSettings


def read(config: dict[str, Any]) -> CompareSettings:
    from transformer.cli.places import check_output_folder
    from transformer.config import UsageError, from_part

    if config["runs"] is None:
        raise UsageError("runs is not set: name two or more, as runs=[A,B]")
    if config["comet"] == "":  # as of a variable of the shell that is not set
        raise UsageError("comet= is empty: give a COMET model, or leave it out")
    if config["output"]:
        check_output_folder(config["output"])
    from transformer.evaluation.compare_runs import CompareSettings

    return from_part(CompareSettings, config)


def compare(settings: CompareSettings) -> None:
    from transformer.evaluation.compare_runs import compare_runs
    from transformer.visualization.comparison import draw_comparison

    comparison = compare_runs(settings)
    if settings.output:  # first: a reader of stdout may go
        file = Path(settings.output) / "comparison.json"
        comparison.write(file)
        draw_comparison(comparison.intervals(), file.with_suffix(".png"))
    comparison.show()


if __name__ == "__main__":
    launch(read, compare, config_name="compare")
