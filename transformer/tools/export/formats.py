"""What can be exported, in which precision and to where: settings, read without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from transformer.config import PATH, Settings, UsageError
from transformer.files import EXPORT_MANIFEST, read_json

WeightPrecision = Literal["float32", "float16", "bfloat16", "int8"]


@dataclass(frozen=True)
class ExportFormat:
    """One format: the `precisions` of weights that it can hold, the first unless another is asked for; the function
    that writes it, "module:name", which takes an `Export` of write.py; what can be done with what is written: {} is its
    place, {translate} how `translate` is started from here; and, if it is one file, what that ends in."""

    precisions: tuple[WeightPrecision, ...]
    write: str
    next_step: str
    suffix: str | None = None


EXPORTS: dict[str, ExportFormat] = {
    "ctranslate2": ExportFormat(
        ("float32", "float16", "bfloat16", "int8"),
        "transformer.tools.export.ctranslate2:write",
        "{translate} --checkpoint {}",
    ),
    "huggingface": ExportFormat(
        ("float32", "float16", "bfloat16"),
        "transformer.tools.hub.writer:write",
        "docs/export.md shows how transformers translates with it",
    ),
    "onnx": ExportFormat(
        ("float32",), "transformer.tools.export.onnx:write", "docs/export.md shows how onnxruntime translates with it"
    ),
    "page": ExportFormat(("int8", "float16"), "transformer.tools.page.export:write", "open it in a browser", ".html"),
    "safetensors": ExportFormat(
        ("float32", "float16", "bfloat16"),
        "transformer.tools.export.write:write_rounded",
        "{translate} --checkpoint {}",
        ".safetensors",
    ),
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
    """What to write, in which precision (None: the first of the format), and where: a folder, or a file. `text` is the
    sentence that a page opens with, `title` what stands over it, `examples` the file of sentences that it offers."""

    format: Annotated[str, EXPORTS]
    precision: WeightPrecision | None
    output: Annotated[str, PATH]
    text: str | None = None
    title: str | None = None
    examples: Annotated[str | None, PATH] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen, output = EXPORTS[self.format], Path(self.output)
        if self.precision not in (None, *chosen.precisions):
            raise UsageError(
                f"--precision {self.precision} is not for {self.format}: choose one of {', '.join(chosen.precisions)}"
            )
        for name in ("text", "title", "examples"):
            if getattr(self, name) is not None and self.format != "page":
                raise UsageError(f"--{name} is for a page: leave it out, {self.format} shows no sentence")
        if self.examples is not None and not Path(self.examples).is_file():
            raise UsageError(f"--examples {self.examples}: no such file; it has sentences to translate, one a line")
        if chosen.suffix is None and output.suffix in (".onnx", ".html", ".safetensors"):
            raise UsageError(f"--output {output}: {self.format} is a folder: leave out {output.suffix}")
        if chosen.suffix is None:
            check_replaceable(output)
        elif output.suffix != chosen.suffix or output.is_dir():
            raise UsageError(f"--output {output} must name a file that ends in {chosen.suffix}")
