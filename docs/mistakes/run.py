"""Trains a small model with each of the ten mistakes of zoo.py and measures the effects.

    python docs/mistakes/run.py                   # all ten; writes their pictures and numbers into both pages
    python docs/mistakes/run.py no_causal_mask    # one: the numbers on stdout, the pictures beside the run

A run takes one to two minutes on two CPU cores, and goes into runs/mistakes/NAME. A finished run is not trained again,
so that an interrupted command continues where it stopped; with --again it is.
"""

import argparse
import contextlib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.mistakes.report import compare, draw, table, write_pages
from docs.mistakes.zoo import MISTAKES, REFERENCES
from transformer.cli.compose import compose
from transformer.cli.train import model_settings, of_run, read_run_settings
from transformer.data.config import DataSettings
from transformer.signals import Interrupted
from transformer.training.checks import check_trainer
from transformer.training.train import run

PROJECT = Path(__file__).resolve().parents[2]

# The bundled corpus and its model, but fewer steps. On a CPU, because attention is written in Python there: a mistake
# could not be put into a fused kernel from outside.
SETTINGS = (
    *("trainer=cpu", "trainer.max_steps=400", "trainer.log_every_n_steps=10", "loggers=[csv]", "test=false"),
    *("training.warmup_steps=100", "training.validate_every=80", "training.samples=0"),
)


def train(name: str, folder: Path, overrides: Sequence[str], again: bool) -> DataSettings:
    """Trains one of MISTAKES or REFERENCES in `folder`, unless it is finished; returns the settings of its corpus."""
    mistake = MISTAKES.get(name)
    reference = REFERENCES[mistake.reference if mistake else name]
    config = of_run(compose(*SETTINGS, *reference.settings, *overrides))
    settings, model = read_run_settings(config), model_settings(config, typed=[])
    settings = replace(settings, trainer=check_trainer(settings.trainer))
    plain = asdict(settings) | {"model": model}
    record, text = folder / "settings.json", json.dumps(plain, indent=1)
    if again or not record.exists() or record.read_text(encoding="utf-8") != text:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"\n== {name}: {(mistake or reference).title}", file=sys.stderr)
        with mistake.made() if mistake else contextlib.nullcontext():
            run(settings, model, folder)
        record.write_text(text, encoding="utf-8")  # written last, because it marks the run as finished
    return settings.data


def main(arguments: Sequence[str], overrides: Sequence[str] = (), runs: Path = PROJECT / "runs" / "mistakes") -> None:
    """`overrides` are further settings of every run, as on the command line of scripts/train.py."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(MISTAKES)}")
    parser.add_argument("--again", action="store_true", help="trains finished runs again")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in MISTAKES:
            parser.error(f"no mistake is called {name}: choose from {', '.join(MISTAKES)}")
    names = options.names or list(MISTAKES)
    for name in dict.fromkeys([*(MISTAKES[name].reference for name in names), *names]):
        data = train(name, runs / name, overrides, options.again)
    comparisons = {}
    for name in names:
        print(f"measuring {name}", file=sys.stderr)
        comparisons[name] = compare(name, runs, list(data.read("test")))
        if options.names:
            draw(comparisons[name], runs / name)
            print(f"{MISTAKES[name].title} ({runs / name})\n\n{table(comparisons[name])}\n")
    if not options.names:
        write_pages(comparisons, PROJECT / "docs")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Interrupted, KeyboardInterrupt):
        sys.exit("stopped: the same command continues with the interrupted run")
