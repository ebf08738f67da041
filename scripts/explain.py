"""Explains a translation on a page: `python scripts/explain.py text="…" [checkpoint=RUN] [output=page.html]`."""

import sys
from pathlib import Path
from typing import Any

from command_line import find_checkpoint, launch
from omegaconf import DictConfig, OmegaConf

from transformer import Translator
from transformer.inference.search import SearchSettings
from transformer.settings import from_plain
from transformer.storage.whole import write_whole
from transformer.visualization.explain import explain, page


def explain_text(config: DictConfig) -> None:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    search = from_plain(SearchSettings, plain["search"], "search")
    if plain["text"] is None:
        raise ValueError('text is not set: give the sentence to explain, text="…"')
    output = Path(plain["output"])
    if output.is_dir():
        raise ValueError(f"output={plain['output']} is a folder: name a file, such as {output / 'explain.html'}")
    translator = Translator.load(find_checkpoint(plain["checkpoint"], Path(plain["runs"])), plain["device"])
    # A line break within the text is a space, as in translate.py.
    explanation = explain(translator, " ".join(plain["text"].split("\n")), search)
    write_whole(output, page(explanation).encode())
    print("Open this page in a browser:", file=sys.stderr)
    print(output.absolute())


if __name__ == "__main__":
    launch(explain_text, config_name="explain")
