"""Explains a translation: `python scripts/explain.py text="…" [checkpoint=RUN] [output=page.html]`, or a .png."""

import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from transformer import Translator
from transformer.cli.launch import find_checkpoint, launch
from transformer.config import from_dict
from transformer.device import MachineSettings, configure_torch
from transformer.files import atomic_write
from transformer.inference.search import SearchSettings
from transformer.visualization.attention import View, draw_translation
from transformer.visualization.explain import explain, page
from transformer.visualization.picture import SUFFIXES


def explain_text(config: DictConfig) -> None:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    search = from_dict(SearchSettings, plain["search"], "search")
    view = from_dict(View, {key: plain[key] for key in ("attention", "layer", "head")}, "")
    if plain["text"] is None:
        raise ValueError('text is not set: give the sentence to explain, text="…"')
    output = Path(plain["output"])
    if output.is_dir():
        raise ValueError(f"output={plain['output']} is a folder: name a file, such as {output / 'explain.html'}")
    if output.suffix.lower() not in (".html", *SUFFIXES):
        raise ValueError(
            f"output={plain['output']} must end in .html (a page) or one of {', '.join(SUFFIXES)} (a picture)"
        )
    machine = from_dict(MachineSettings, plain["machine"], "machine")
    translator = Translator.load(
        find_checkpoint(plain["checkpoint"], Path(plain["runs"])),
        plain["device"],
        target_language=plain["target_language"],
    )
    configure_torch(machine, translator.device.type)
    # A line break within the text is a space, as in translate.py.
    text = " ".join(plain["text"].split("\n"))
    if output.suffix.lower() == ".html":
        atomic_write(output, page(explain(translator, text, search)).encode())
        print("Open this page in a browser:", file=sys.stderr)
    else:
        draw_translation(translator, text, search, view, output)
    print(output.absolute())


if __name__ == "__main__":
    launch(explain_text, config_name="explain")
