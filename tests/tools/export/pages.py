"""Exported pages: opened in a browser, and read back."""

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.browsers import Firefox, Visit
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import Tokenizer
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.hub.vocabulary import parse

# Waits until the page is ready, or returns its error.
READY = """async () => {
  for (let waited = 0; waited < 60_000; waited += 10) {
    const status = document.getElementById("status")?.textContent ?? "";
    if (window.translator) return "ready";
    if (status && !status.startsWith("If this line stays")) return status;
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}"""


class Opened:
    """A page in a tab of Chromium, or in Firefox."""

    def __init__(self, tab: Any, path: Path) -> None:
        self.visit: Visit | None = None
        if isinstance(tab, Firefox):
            tab.open(path)
        else:
            self.visit = Visit(tab, path.as_uri())
        self.page = tab
        self.status = tab.evaluate(READY)

    def ask(self, function: str, *argument: Any) -> Any:
        return self.page.evaluate(function, list(argument))

    def assert_harmless(self) -> None:
        """The page had no errors, and requested nothing but itself."""
        if self.visit is not None:
            assert self.visit.errors == []
            assert all(url.startswith(("file:", "blob:null/")) for url in self.visit.requests)

    def close(self) -> None:
        if self.visit is not None:
            self.visit.close()


def exported(translator: Translator, tab: Any, path: Path, precision: str | None = None) -> Opened:
    """Exports a translator to a page and opens it."""
    export(translator, ExportSettings("page", precision, str(path)))  # type: ignore[arg-type]
    opened = Opened(tab, path)
    assert opened.status == "ready"
    return opened


Open = Callable[..., Opened]


def translator_in(html: str) -> Translator:
    """The translator in a page with int8 weights and one vocabulary."""
    [weights] = re.findall(r'id="weights">(.*?)</script>', html)
    content = gzip.decompress(base64.b64decode(weights))
    start = 4 + int.from_bytes(content[:4], "little")
    description = json.loads(content[4:start])
    model = Transformer(from_dict(ModelConfig, description["model"], "model")).eval()
    parameters = dict(model.named_parameters())
    tokenizer = b""
    for tensor in description["tensors"]:
        data = content[start + tensor["offset"] :][: tensor["length"]]
        if tensor["type"] == "uint8":
            tokenizer = data
            continue
        values = np.frombuffer(data, np.float32 if tensor["type"] == "float32" else np.int8)
        if tensor["type"] == "int8":
            rows = len(data) // (tensor["shape"][-1] + 4)
            scales = np.frombuffer(data[: 4 * rows], np.float32)
            values = values[4 * rows :].reshape(rows, -1) * scales[:, None]
        with torch.no_grad():
            parameters[tensor["name"]].copy_(torch.from_numpy(values.copy()).reshape(tensor["shape"]))
    kind = {1: "unigram", 2: "bpe"}[parse(tokenizer).trainer_spec.model_type]
    both = Tokenizer(tokenizer, kind)  # type: ignore[arg-type]
    return Translator(model, (both, both), tuple(description["languages"]))
