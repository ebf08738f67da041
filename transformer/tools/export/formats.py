"""One way in for all formats, and one way back from a folder that can translate."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from transformer.data.directions import arrow
from transformer.device import PRECISIONS
from transformer.inference.translator import Translator
from transformer.tools.export import folder
from transformer.tools.export.settings import FORMAT_PRECISIONS, ExportSettings
from transformer.tools.hub.writer import export as to_huggingface
from transformer.tools.page import export as page


@contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{error.name} is not installed: pip install -e '.[export]'") from error


def export(translator: Translator, settings: ExportSettings, name: str = "", card: str = "") -> None:
    """Writes the translator, whole or not at all; a page calls it `name`, and a folder for the hub takes its `card`.

    Raises ValueError, naming the setting, for a model that the format cannot express, and where the libraries of
    `pip install -e '.[export]'` are missing.
    """
    output, model = Path(settings.output), translator.model
    if settings.format in ("page", "huggingface") and translator.is_zero_shot:
        raise ValueError(
            f"{settings.format} has the directions that the model has learned, {arrow(*translator.directions)}: "
            f"{arrow(translator.languages)} is none of them"
        )
    precision = settings.precision or FORMAT_PRECISIONS[settings.format][0]
    if dtype := PRECISIONS.get(precision):
        for parameter, weight in model.named_parameters():
            if not weight.to(dtype).isfinite().all():
                raise ValueError(f"--precision {precision} cannot hold {parameter}: its values are too large")
    if settings.format == "safetensors":
        rounded = copy.copy(translator)  # with its alignment head, if it has one
        rounded.model = copy.deepcopy(model).to(dtype)
        rounded.save(output)
    elif settings.format == "page":
        page.export(translator, precision, output, settings.text or "", name)
    elif settings.format == "ctranslate2":
        with _extra():
            from transformer.tools.export.ctranslate2 import export as to_ctranslate2
        arguments = (model, translator.tokenizers, precision)
        folder.write(output, "ctranslate2", translator, lambda work: to_ctranslate2(*arguments, work))
    elif settings.format == "huggingface":
        assert dtype is not None
        first = translator.languages
        directions = [first, *(one for one in translator.directions if one != first)]
        make = partial(to_huggingface, model, translator.tokenizers, directions, translator.length_penalty, dtype, card)
        folder.write(output, "huggingface", translator, make)
    else:
        with _extra():
            from transformer.tools.export.onnx import export as to_onnx
        folder.write(output, "onnx", translator, lambda work: to_onnx(model, work))


def load(path: str | Path, device: str = "cpu", threads: int = 0) -> Translator:
    """A translator from an exported folder, in the precision that was chosen then; see `engine` for all the rest."""
    with _extra():
        from transformer.tools.export.engine import CTranslate2Translator
    return CTranslate2Translator(Path(path), device, threads)
