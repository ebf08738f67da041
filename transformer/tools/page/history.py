"""How a run learned, as the page shows it: the snapshots of its weights, and the curves of its log."""

import math
from dataclasses import dataclass, field

from transformer.inference import model_file
from transformer.inference.translator import Translator
from transformer.model.transformer import Transformer
from transformer.run import Run
from transformer.tools.pictures.curves import Points, read_metrics, running_mean

# More points than a small picture has pixels.
MAX_POINTS = 200
CURVES = {"training": "train/loss", "validation": "validation/loss", "bleu": "validation/bleu"}


@dataclass(frozen=True)
class History:
    """`snapshots` are models by the number of steps that they have learned, `finished` is that of the best validation,
    whose model a run leaves; `curves` are points (step, value) of the training loss, as a running mean, the validation
    loss and its BLEU."""

    snapshots: dict[int, Transformer] = field(default_factory=dict)
    finished: int | None = None
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)


def _best_step(columns: dict[str, Points], choose_by: str | None) -> int | None:
    """The step of the best validation, of equal ones the last (see `training.loop`); None: nothing was validated."""
    if choose_by not in ("bleu", "chrf", "loss"):
        choose_by = "chrf" if "validation/chrf" in columns else "bleu"
    steps, values = columns.get(f"validation/{choose_by}", ([], []))
    best = min if choose_by == "loss" else max
    return max((step for step, value in zip(steps, values, strict=True) if value == best(values)), default=None)


def _thinned(points: Points) -> list[tuple[int, float]]:
    """At most MAX_POINTS of the finite ones, the last among them."""
    finite = [(step, round(value, 4)) for step, value in zip(*points, strict=True) if math.isfinite(value)]
    return finite[:: -math.ceil(len(finite) / MAX_POINTS)][::-1] if finite else []


def read_history(run: Run, translator: Translator) -> History:
    """The history of a run that kept snapshots; else an empty one. Raises ValueError for a snapshot of another model
    than the `translator`, and for a log that cannot be read."""
    if not run.snapshots:
        return History()
    columns = read_metrics(run.metrics_log) if run.metrics_log.exists() else {}
    settings = run.settings.get("training")
    finished = _best_step(columns, settings.get("choose_by") if isinstance(settings, dict) else None)
    snapshots = {}
    for step, path in run.snapshots.items():
        if finished is not None and step >= finished:
            break  # later than the model that the run leaves
        saved = model_file.load(path)
        tokenizers = [tokenizer.model for tokenizer in saved.tokenizers]
        if saved.config != translator.model.config or tokenizers != [one.model for one in translator.tokenizers]:
            raise ValueError(f"{path} is of another model than the one to export: --no-snapshots leaves it out")
        snapshots[step] = saved.build()
    if "train/loss" in columns:
        steps, losses = columns["train/loss"]
        columns["train/loss"] = steps, running_mean(losses)
    curves = {name: _thinned(columns[column]) for name, column in CURVES.items() if column in columns}
    return History(snapshots, finished, curves)
