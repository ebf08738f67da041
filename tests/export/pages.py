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

from tests.browsers import Firefox
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import Tokenizer
from transformer.inference.hub_vocabulary import parse

# Waits until the page is ready, or says why not.
READY = """async () => {
  for (let waited = 0; waited < 60_000; waited += 10) {
    const status = document.getElementById("status")?.textContent ?? "";
    if (window.translator) return "ready";
    if (status && !status.startsWith("If this line stays")) return status;
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}"""


class Opened:
    """A page in Chromium or Firefox. Nothing may go wrong on it, and nothing may be asked for but itself."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        if isinstance(browser, Firefox):
            self.page: Any = browser
            browser.open(path)
        else:
            self.page = browser.new_page()
            self.page.on("request", lambda request: self.requests.append(request.url))
            self.page.on("pageerror", lambda error: self.errors.append(str(error)))
            self.page.on("console", lambda message: self.errors.append(message.text))
            self.page.goto(path.as_uri())
        self.status = self.page.evaluate(READY)

    def ask(self, function: str, *argument: Any) -> Any:
        return self.page.evaluate(function, list(argument))

    def close(self) -> None:
        if not isinstance(self.page, Firefox):
            self.page.close()


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
