"""Explains a translation: `python scripts/explain.py text="…" [checkpoint=RUN] [output=page.html]`, or a .png."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer.cli.errors import UsageError, say
from transformer.cli.launch import launch
from transformer.cli.runs import find_checkpoint

if TYPE_CHECKING:
    from transformer.device import MachineSettings
    from transformer.inference.search import SearchSettings
    from transformer.visualization.attention import View


class Explanation(NamedTuple):
    text: str
    output: Path
    checkpoint: Path
    device: str
    target_language: str | None
    search: SearchSettings
    machine: MachineSettings
    view: View


def read(config: dict[str, Any]) -> Explanation:
    from transformer.config import from_dict
    from transformer.device import MachineSettings
    from transformer.inference.search import SearchSettings
    from transformer.visualization.attention import View
    from transformer.visualization.picture import SUFFIXES

    if config["text"] is None:
        raise UsageError('text is not set: give the sentence to explain, text="…"')
    output = Path(config["output"])
    if output.is_dir():
        raise UsageError(f"output={output} is a folder: name a file, such as {output / 'explain.html'}")
    if output.suffix.lower() not in (".html", *SUFFIXES):
        raise UsageError(f"output={output} must end in .html (a page) or one of {', '.join(SUFFIXES)} (a picture)")
    return Explanation(
        text=" ".join(config["text"].split("\n")),  # as in translate.py: one text, one line
        output=output,
        checkpoint=find_checkpoint(config["checkpoint"], Path(config["runs"])),
        device=config["device"],
        target_language=config["target_language"],
        search=from_dict(SearchSettings, config["search"], "search"),
        machine=from_dict(MachineSettings, config["machine"], "machine"),
        view=from_dict(View, {key: config[key] for key in ("attention", "layer", "head")}, ""),
    )


def explain_text(job: Explanation) -> None:
    # Importing torch takes seconds, which a wrong key need not wait for.
    from transformer import Translator
    from transformer.device import configure_torch
    from transformer.files import atomic_write
    from transformer.visualization.attention import draw_translation
    from transformer.visualization.explain import explain, page

    translator = Translator.load(job.checkpoint, job.device, target_language=job.target_language)
    configure_torch(job.machine, translator.device.type)
    if job.output.suffix.lower() == ".html":
        atomic_write(job.output, page(explain(translator, job.text, job.search)).encode())
        say("Open this page in a browser:")
    else:
        draw_translation(translator, job.text, job.search, job.view, job.output)
    print(job.output.absolute())


if __name__ == "__main__":
    launch(read, explain_text, config_name="explain")
