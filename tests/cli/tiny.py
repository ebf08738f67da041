"""A command that trains a model for two steps."""

from pathlib import Path

from tests.scripts.running import SMALL, TOY

STEPS = 2
TINY = [
    *(*SMALL, "data.train=few", "data.validation=few", "data.test=few", "tokenizer.vocabulary_size=200"),
    *(f"trainer.max_steps={STEPS}", f"training.validate_every={STEPS}", "training.warmup_steps=0", "loggers=[]"),
    *("trainer.precision=32-true", "machine.threads=1", "search=greedy"),
    *("search.max_length=3", "validation_search.max_length=3"),
]


def few_pairs(folder: Path) -> Path:
    """A folder with the corpus of these runs."""
    for language in ("de", "en"):
        lines = (TOY / f"test.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"few.{language}").write_text("".join(lines[:40]), encoding="utf-8")
    return folder
