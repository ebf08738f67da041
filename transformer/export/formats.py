"""One way in for all formats, and one way back from a folder that can translate."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from transformer.data.directions import arrow
from transformer.device import PRECISIONS
from transformer.export import folder, page
from transformer.export.huggingface import export as to_huggingface
from transformer.inference.translator import Translator

Format = Literal["ctranslate2", "huggingface", "onnx", "page", "safetensors"]
# What each format can hold weights in; the first unless another is asked for.
FORMAT_PRECISIONS = {
    "ctranslate2": ("float32", "float16", "bfloat16", "int8"),
    "huggingface": ("float32", "float16", "bfloat16"),
    "onnx": ("float32",),
    "page": ("int8", "float16"),
    "safetensors": ("float32", "float16", "bfloat16"),
}
# Formats that are one file, which ends in this.
SUFFIXES = {"page": ".html", "safetensors": ".safetensors"}
# What can be done with what is written: {} is its place, {translate} how translate.py is started from here.
NEXT_STEP = {
    "ctranslate2": "{translate} checkpoint={}",
    "huggingface": "docs/export.md shows how transformers translates with it",
    "onnx": "docs/export.md shows how onnxruntime translates with it",
    "page": "open it in a browser",
    "safetensors": "{translate} checkpoint={}",
}


@dataclass(frozen=True)
class ExportSettings:
    """What to write, in which precision (None: the format's usual one), and where: a folder, or a file (`SUFFIXES`).

    `text` is the sentence that a page opens with.
    """

    format: Format
    precision: Literal["float32", "float16", "bfloat16", "int8"] | None
    output: str
    text: str | None = None

    def __post_init__(self) -> None:
        if self.precision not in (None, *FORMAT_PRECISIONS[self.format]):
            offered = ", ".join(FORMAT_PRECISIONS[self.format])
            raise ValueError(f"precision={self.precision} is not for format={self.format}; choose one of {offered}")
        if self.text is not None and self.format != "page":
            raise ValueError(f"text= is for format=page; format={self.format} shows no sentence")
        output, suffix = Path(self.output), SUFFIXES.get(self.format)
        if suffix is None and output.suffix in (".onnx", *SUFFIXES.values()):
            raise ValueError(f"output={self.output}: format={self.format} writes a folder: leave out {output.suffix}")
        if suffix is None:
            folder.check_replaceable(output)
        elif output.suffix != suffix or output.is_dir():
            raise ValueError(f"output={self.output} must name a file that ends in {suffix}")


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
            f"format={settings.format} has the directions that the model has learned, {arrow(*translator.directions)}: "
            f"{arrow(translator.languages)} is none of them"
        )
    precision = settings.precision or FORMAT_PRECISIONS[settings.format][0]
    if dtype := PRECISIONS.get(precision):
        for parameter, weight in model.named_parameters():
            if not weight.to(dtype).isfinite().all():
                raise ValueError(f"precision={precision} cannot hold {parameter}: its values are too large")
    if settings.format == "safetensors":
        rounded = copy.copy(translator)  # with its alignment head, if it has one
        rounded.model = copy.deepcopy(model).to(dtype)
        rounded.save(output)
    elif settings.format == "page":
        page.export(translator, precision, output, settings.text or "", name)
    elif settings.format == "ctranslate2":
        with _extra():
            from transformer.export.ctranslate2 import export as to_ctranslate2
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
            from transformer.export.onnx import export as to_onnx
        folder.write(output, "onnx", translator, lambda work: to_onnx(model, work))


def load(path: str | Path, device: str = "cpu", threads: int = 0) -> Translator:
    """A translator from an exported folder, in the precision that was chosen then; see `engine` for all the rest."""
    with _extra():
        from transformer.export.engine import CTranslate2Translator
    return CTranslate2Translator(Path(path), device, threads)
