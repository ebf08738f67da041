"""The pictures in a run's folder: its curves, and its attention."""

import logging
from pathlib import Path

from transformer.inference.translator import Translator
from transformer.run import Run
from transformer.tools.pictures.attention_maps import NAMES, draw_reading, read
from transformer.tools.pictures.curves import draw_curves
from transformer.tools.pictures.view import View
from transformer.training.loop import Training

log = logging.getLogger(__name__)


def draw_progress(training: Training) -> None:
    """`curves.png`, after every validation of a run that logs to metrics.csv."""
    run = Run(training.folder)
    if training.fabric.is_global_zero and run.metrics_log.exists():
        draw_curves(run.metrics_log, run.curves)


def draw_attentions(translator: Translator, samples: list[tuple[str, str, str]], folder: Path) -> None:
    """One picture for each attention of the model: the last layer, the mean of its heads, for the shortest sample with
    a non-empty source and translation."""
    drawable = [(source, translation) for source, _, translation in samples if source and translation]
    if not drawable:
        return
    source, translation = min(drawable, key=lambda texts: len(texts[0]))
    try:
        reading = read(translator, source, translator.target_tokenizer.encode(translation))
    except ValueError as error:
        # A sentence that is too long to draw must not end the run.
        log.warning("no pictures of attention: %s", error)
        return
    for attention in NAMES:
        if getattr(reading.record, attention):
            draw_reading(reading, View(attention, layer=None, head=None), folder / f"{attention}.png")
