"""`translator export`: a trained translator in the format of another program, or as a page for the browser."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from transformer.cli.models import announce_checkpoint, find_checkpoint, model_name, read_card
from transformer.cli.places import check_can_be_written, check_output_file
from transformer.config import UsageError
from transformer.printing import print_safely, say, script_command, shell_path
from transformer.run import Run
from transformer.tools.export.formats import EXPORTS, ExportSettings, WeightPrecision


def export(
    format: str,
    /,
    *,
    output: str,
    precision: WeightPrecision | None = None,
    checkpoint: str | None = None,
    source: str | None = None,
    target: str | None = None,
    text: str | None = None,
    title: str | None = None,
    examples: str | None = None,
    snapshots: Annotated[bool, Parameter(negative=None)] = True,
) -> None:
    """Writes a translator in the format of another program, or as a page for the browser.

    Parameters
    ----------
    format
        ctranslate2 (translate.py can use it too) | huggingface (for the transformers library) | onnx (two graphs: the
        encoder, and one step of the decoder) | page (one HTML file that translates in a browser) | safetensors (one
        file)
    output
        the folder to write; for a page FILE.html, for safetensors FILE.safetensors
    precision
        of the weights: ctranslate2 allows all four, a page int8 or float16, onnx float32, the others all except int8;
        by default float32, for a page int8
    checkpoint
        a run's folder, .safetensors or .ckpt, or a Hugging Face folder; by default the newest finished run in runs/
    source
        the language of the text; with --target it chooses one of several directions of a model
    target
        the language to translate into
    text
        the sentence that a page shows first
    title
        the heading of a page
    examples
        a file of sentences in the source language, one on each line, such as test.de: a page offers five of them, and
        for each of its What-if switches one that the switch changes (finding it takes some seconds); everyone who has
        the page can read them
    snapshots
        if the run kept snapshots (training.snapshots), the page shows with them how it learned
    """
    settings = ExportSettings(format, precision, output, text, title, examples)
    place = Path(settings.output)
    if suffix := EXPORTS[format].suffix:
        check_output_file(settings.output, [suffix])
    else:
        check_can_be_written(place, "--output")
    found = find_checkpoint(checkpoint)
    if place.resolve() == found.resolve():
        raise UsageError(f"--output {output} is the model to export, which must stay unchanged: give another")
    announce_checkpoint(checkpoint, found)
    if place.exists():
        say(f"{shell_path(place)} exists already: it will be replaced")

    from transformer.inference.translator import Translator
    from transformer.tools.export.write import export as write

    translator = Translator.load(found, source_language=source, target_language=target)
    run = Run.open(found)
    learned = run if snapshots and found in (run.translator, run.best) else None
    write(translator, settings, model_name(found), read_card(found), learned)
    print_safely(str(place))
    say(f"next: {EXPORTS[format].next_step.format(shell_path(place), translate=script_command('translate'))}")
