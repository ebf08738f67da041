"""Writes a translator in one of the formats of EXPORTS."""

import copy
from pathlib import Path
from typing import NamedTuple

from transformer.config import import_named
from transformer.device import PRECISIONS
from transformer.inference.translator import Translator
from transformer.run import Run
from transformer.tools.export.formats import EXPORTS, ExportSettings


class Export(NamedTuple):
    """A translator to export, the precision and the output. For a page: its first sentence `text`, the `name` of the
    model, its heading `title`, the file `examples` of sentences that it offers, and the `run`, whose snapshots show how
    it learned. For the hub: the run's `card`."""

    translator: Translator
    precision: str
    output: Path
    text: str
    name: str
    card: str
    run: Run | None = None
    title: str = ""
    examples: str | None = None


def write_rounded(job: Export) -> None:
    """The translator as one file, with its weights in another precision."""
    rounded = copy.copy(job.translator)  # keeps its alignment head, if it has one
    rounded.model = copy.deepcopy(job.translator.model).to(PRECISIONS[job.precision])
    rounded.save(job.output)


def export(
    translator: Translator, settings: ExportSettings, name: str = "", card: str = "", run: Run | None = None
) -> None:
    """Writes the translator, whole or not at all.

    Raises ValueError, with the setting, for a model that the format does not support, and if the libraries of
    `pip install -e '.[export]'` are missing.
    """
    chosen = EXPORTS[settings.format]
    precision = settings.precision or chosen.precisions[0]
    if dtype := PRECISIONS.get(precision):
        for parameter, weight in translator.model.named_parameters():
            if not weight.to(dtype).isfinite().all():
                raise ValueError(f"--precision {precision} cannot hold {parameter}: its values are too large")
    write = import_named(chosen.write, extra="export")
    text, title, output = settings.text or "", settings.title or "", Path(settings.output)
    write(Export(translator, precision, output, text, name, card, run, title, settings.examples))
