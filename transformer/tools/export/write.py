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
    """What is written: the translator, in which precision, to where; a page opens with `text`, calls the model `name`
    and itself `title`, offers sentences of the file `examples`, and shows how the `run` learned, if it is given and has
    snapshots; a folder for the hub takes the run's `card`."""

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
    rounded = copy.copy(job.translator)  # with its alignment head, if it has one
    rounded.model = copy.deepcopy(job.translator.model).to(PRECISIONS[job.precision])
    rounded.save(job.output)


def export(
    translator: Translator, settings: ExportSettings, name: str = "", card: str = "", run: Run | None = None
) -> None:
    """Writes the translator, whole or not at all.

    Raises ValueError, naming the setting, for a model that the format cannot express, and where the libraries of
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
