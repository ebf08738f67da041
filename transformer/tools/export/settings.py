"""What can be exported, in which precision and to where: settings, read without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from transformer.config import PATH, Settings, UsageError
from transformer.files import EXPORT_MANIFEST, read_json

Format = Literal["ctranslate2", "huggingface", "onnx", "page", "safetensors"]
WeightPrecision = Literal["float32", "float16", "bfloat16", "int8"]
# What each format can hold weights in; the first unless another is asked for.
FORMAT_PRECISIONS: dict[Format, tuple[WeightPrecision, ...]] = {
    "ctranslate2": ("float32", "float16", "bfloat16", "int8"),
    "huggingface": ("float32", "float16", "bfloat16"),
    "onnx": ("float32",),
    "page": ("int8", "float16"),
    "safetensors": ("float32", "float16", "bfloat16"),
}
# Formats that are one file, which ends in this.
SUFFIXES: dict[Format, str] = {"page": ".html", "safetensors": ".safetensors"}
# What can be done with what is written: {} is its place, {translate} how translate.py is started from here.
NEXT_STEP: dict[Format, str] = {
    "ctranslate2": "{translate} --checkpoint {}",
    "huggingface": "docs/export.md shows how transformers translates with it",
    "onnx": "docs/export.md shows how onnxruntime translates with it",
    "page": "open it in a browser",
    "safetensors": "{translate} --checkpoint {}",
}
MAX_MANIFEST_BYTES = 4 << 20  # one takes some thousand


def check_replaceable(folder: Path) -> None:
    """Raises UsageError unless `folder` is not there, empty, or an export and nothing besides."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output {folder} is a file: name a folder")
    if folder.exists():
        try:
            manifest = read_json(folder / EXPORT_MANIFEST, MAX_MANIFEST_BYTES, follow_links=True)
            known = {EXPORT_MANIFEST, *manifest["files"]}
        except (OSError, ValueError, KeyError, TypeError):
            known = set()
        if foreign := sorted(path.name for path in folder.iterdir() if path.name not in known):
            raise UsageError(f"--output {folder} holds {foreign[0]}, which is of no export: name a new or empty folder")


@dataclass(frozen=True)
class ExportSettings(Settings):
    """What to write, in which precision (None: the first of FORMAT_PRECISIONS), and where: a folder, or a file
    (SUFFIXES). `text` is the sentence that a page opens with."""

    format: Format
    precision: WeightPrecision | None
    output: Annotated[str, PATH]
    text: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        precisions = FORMAT_PRECISIONS[self.format]
        if self.precision not in (None, *precisions):
            raise UsageError(
                f"--precision {self.precision} is not for {self.format}: choose one of {', '.join(precisions)}"
            )
        if self.text is not None and self.format != "page":
            raise UsageError(f"--text is for a page: leave it out, {self.format} shows no sentence")
        output, suffix = Path(self.output), SUFFIXES.get(self.format)
        if suffix is None and output.suffix in (".onnx", *SUFFIXES.values()):
            raise UsageError(f"--output {output}: {self.format} is a folder: leave out {output.suffix}")
        if suffix is None:
            check_replaceable(output)
        elif output.suffix != suffix or output.is_dir():
            raise UsageError(f"--output {output} must name a file that ends in {suffix}")
