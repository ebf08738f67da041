"""`translator explain`: a page that explains one translation, or a picture of one matrix of attention weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from transformer.cli.app import Flags, SearchFlags
from transformer.cli.models import announce_checkpoint, find_checkpoint, model_name
from transformer.cli.places import check_output_file
from transformer.config import PATH, Settings, UsageError
from transformer.files import atomic_write
from transformer.inference.settings import InferenceSettings, SearchSettings
from transformer.machine import MachineSettings
from transformer.printing import print_safely, say
from transformer.tools.pictures.view import SUFFIXES, View

ViewFlags = Annotated[View, Parameter(name="*", group="What a picture shows")]


@dataclass(frozen=True)
class ExplainSettings(Settings):
    """The model that translates the text, and the file for the explanation."""

    checkpoint: str | None = None
    """a run's folder, .safetensors, .ckpt or a Hugging Face folder; by default the newest finished run in runs/"""
    output: Annotated[str, PATH] = "explain.html"
    """.html: a page that opens in any browser, without a network; .png, .svg or .pdf: a picture of one matrix of
    attention weights"""
    source: str | None = None
    """the language of the text; with --target it chooses one of several directions of a model"""
    target: str | None = None
    """the language to translate into"""
    device: str = "auto"
    """auto (a GPU if there is one) | cpu | cuda | cuda:1 | mps"""

    def __post_init__(self) -> None:
        super().__post_init__()
        InferenceSettings(self.device)  # checks the device


def explain(
    text: str,
    /,
    *,
    settings: Flags[ExplainSettings] = ExplainSettings(),
    view: ViewFlags = View(),
    search: SearchFlags = SearchSettings(),
) -> None:
    """Explains how a sentence was translated, on a page or in a picture.

    Parameters
    ----------
    text
        a sentence; after -- it may begin with a dash
    """
    check_output_file(settings.output, [".html", *SUFFIXES])
    output = Path(settings.output)
    is_page = output.suffix.lower() == ".html"
    if is_page and view != View():
        raise UsageError("--attention, --layer and --head are for a picture, --output FILE.png: a page shows them all")
    checkpoint = find_checkpoint(settings.checkpoint)
    announce_checkpoint(settings.checkpoint, checkpoint)

    from transformer.inference.translator import Translator
    from transformer.tools.page.explanation import explain as explanation_of
    from transformer.tools.page.explanation import page
    from transformer.tools.pictures.attention_maps import draw_translation

    text = text.replace("\n", " ")  # one text is one line
    translator = Translator.load(checkpoint, settings.device, "float32", settings.source, settings.target)
    translator.configure_torch(MachineSettings())
    if is_page:
        atomic_write(output, page(explanation_of(translator, text, search, model_name(checkpoint))).encode())
        say("Open this page in a browser:")
    else:
        draw_translation(translator, text, search, view, output)
    print_safely(str(output))
