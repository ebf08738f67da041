"""The command line that the scripts share. Only this package imports Hydra."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
CONFIGS = PROJECT / "configs"
# The two functions of a script: settings from a configuration, and the work, whose results a sweep puts into its table.
Read = Callable[[dict[str, Any]], Any]
Work = Callable[[Any], dict[str, float] | None]
