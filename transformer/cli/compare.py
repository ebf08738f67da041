"""`translator compare`: is one run better than another, or is the difference chance?"""

from pathlib import Path

from transformer.cli.app import Flags
from transformer.cli.places import check_output_folder
from transformer.evaluation.settings import CompareSettings
from transformer.tools.compare.run_results import find_runs


def compare(*runs: str, settings: Flags[CompareSettings] = CompareSettings()) -> None:
    """Compares runs on the same sentences: scores with intervals, significance tests, and the largest differences.

    Parameters
    ----------
    runs
        two or more folders of runs, each compared with the first; the folder of a sweep stands for its trials
    """
    check_output_folder(settings.output)
    folders = find_runs(runs)

    from transformer.tools.compare.compare_runs import compare_runs
    from transformer.tools.pictures.comparison import draw_comparison

    comparison = compare_runs(folders, settings)
    if settings.output:  # written first, because printing may fail
        file = Path(settings.output) / "comparison.json"
        comparison.write(file)
        draw_comparison(comparison.intervals(), file.with_suffix(".png"))
    comparison.show()
