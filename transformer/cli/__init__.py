"""The command line that the scripts share. The only room that knows Hydra, besides scripts/."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CONFIGS = PROJECT / "configs"
