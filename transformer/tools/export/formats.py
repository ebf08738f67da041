"""The formats of exports and their settings, read without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from transformer.config import PATH, Settings, UsageError
from transformer.files import EXPORT_MANIFEST, read_json

WeightPrecision = Literal["float32", "float16", "bfloat16", "int8"]


@dataclass(frozen=True)
class ExportFormat:
    """A format: the `precisions` of weights that it allows, the first by default; "module:name" of the function that
    writes it, which takes an `Export` of write.py; the `next_step` for the user ({} is the path of the export,
    {translate} the command translate); and, if it is one file, its `suffix`."""

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
MAX_MANIFEST_BYTES = 4 << 20  # usually it has some thousand bytes


def check_replaceable(folder: Path) -> None:
    """Raises UsageError unless `folder` is missing, empty, or has an export and nothing else."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output {folder} is a file: give a folder")
    if folder.exists():
        try:
            manifest = read_json(folder / EXPORT_MANIFEST, MAX_MANIFEST_BYTES, follow_links=True)
            known = {EXPORT_MANIFEST, *manifest["files"]}
        except (OSError, ValueError, KeyError, TypeError):
            known = set()
        if foreign := sorted(path.name for path in folder.iterdir() if path.name not in known):
            raise UsageError(f"--output {folder} has {foreign[0]}, which is not an export: give a new or empty folder")


@dataclass(frozen=True)
class ExportSettings(Settings):
    """The format, the precision (None: the first of the format), and the output folder or file. A page first shows the
    sentence `text`, has the heading `title`, and offers the sentences of the file `examples`."""

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
                raise UsageError(f"--{name} is only for a page: leave it out for {self.format}")
        if self.examples is not None and not Path(self.examples).is_file():
            raise UsageError(f"--examples {self.examples}: no such file; it must have one sentence on each line")
        if chosen.suffix is None and output.suffix in (".onnx", ".html", ".safetensors"):
            raise UsageError(f"--output {output}: {self.format} is a folder: leave out {output.suffix}")
        if chosen.suffix is None:
            check_replaceable(output)
        elif output.suffix != chosen.suffix or output.is_dir():
            raise UsageError(f"--output {output} must name a file that ends in {chosen.suffix}")
