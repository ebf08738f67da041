"""Explains a translation: `python scripts/explain.py text="…" [checkpoint=RUN] [output=page.html]`, or a .png."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.cli.checkpoints import announce_checkpoint, find_checkpoint, model_name
from transformer.cli.launch import launch
from transformer.cli.places import check_output_file
from transformer.config import UsageError, from_dict

if TYPE_CHECKING:
    from transformer.device import MachineSettings
    from transformer.inference.search import SearchSettings
    from transformer.visualization.attention import View

Job = tuple[dict[str, Any], Path, "SearchSettings", "MachineSettings", "View"]


def read(config: dict[str, Any]) -> Job:
    if config["text"] is None:
        raise UsageError('text is not set: give the sentence to explain, text="…"')
    checkpoint = find_checkpoint(config["checkpoint"], Path(config["runs"]))
    from transformer.cli.settings import picture_settings
    from transformer.device import MachineSettings
    from transformer.inference.search import SearchSettings
    from transformer.visualization.picture import SUFFIXES

    check_output_file(config["output"], [".html", *SUFFIXES])
    view = picture_settings(config)
    announce_checkpoint(config, checkpoint)
    search = from_dict(SearchSettings, config["search"], "search")
    return config, checkpoint, search, from_dict(MachineSettings, config["machine"], "machine"), view


def explain_text(job: Job) -> None:
    from transformer import Translator
    from transformer.data.printable import print_safely, say
    from transformer.files import atomic_write
    from transformer.visualization.attention import draw_translation
    from transformer.visualization.explain import explain, page

    config, checkpoint, search, machine, view = job
    text, output = config["text"].replace("\n", " "), Path(config["output"])  # one text is one line
    languages = config["source_language"], config["target_language"]
    translator = Translator.load(checkpoint, config["device"], "float32", *languages)
    translator.configure_torch(machine)
    if output.suffix.lower() == ".html":
        atomic_write(output, page(explain(translator, text, search, model_name(checkpoint))).encode())
        say("Open this page in a browser:")
    else:
        draw_translation(translator, text, search, view, output)
    print_safely(str(output.absolute()))


if __name__ == "__main__":
    launch(read, explain_text, config_name="explain")
