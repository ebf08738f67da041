"""A page that translates, in headless Chromium, and PyTorch with the same (rounded) weights, on the same sentences.

Both are measured in turns, greedily and one sentence after another. The page has one thread, PyTorch has all.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.common import Row, settings, spread
from tests.browsers import CHROMIUM, CHROMIUM_FLAGS
from transformer import Translator
from transformer.data.text_files import find_files, read_pairs
from transformer.inference.translator import BEAM
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.page.export import rounded

GREEDY = replace(BEAM, method="greedy")
SENTENCES = 100
WAIT_FOR_TRANSLATION = "() => !document.getElementById('panels').hidden"
# Target tokens per second, with the end symbol of each sentence.
TRANSLATE = """async texts => {
  const start = performance.now();
  let tokens = 0;
  for (const text of texts) {
    const { pieces, sentences } = await window.translator.translate(text, { method: "greedy" });
    tokens += pieces.length + sentences.length;
  }
  return 1000 * tokens / (performance.now() - start);
}"""
# A new process that loads the file and translates a sentence, for the waiting time of a user of PyTorch.
FIRST = """\
import sys
from transformer import Translator
from transformer.inference.settings import SearchSettings
Translator.load(sys.argv[1]).translate(sys.argv[2], SearchSettings(method="greedy"))
"""


def timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def main(run: Path, directory: Path | None, runs: int) -> list[Row]:
    """Prints a table of the medians, with half the range, and returns its rows."""
    from playwright.sync_api import sync_playwright

    translator = rounded(Translator.load(run), "int8")
    data = settings(directory)[0]
    files = find_files(str(data.test), *translator.languages)
    texts = [source for source, _ in islice(read_pairs(files, *translator.languages), SENTENCES)]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page, file = Path(folder, "page.html"), Path(folder, "translator.safetensors")
        export(translator, ExportSettings("page", "int8", str(page), texts[0]))
        translator.save(file)
        translator = Translator.load(file)  # with packed weights, as for users
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)

        def in_browser() -> tuple[float, float]:
            tab = browser.new_page()
            seconds = timed(lambda: (tab.goto(page.as_uri()), tab.wait_for_function(WAIT_FOR_TRANSLATION)))
            speed = tab.evaluate(TRANSLATE, texts)
            tab.close()
            return seconds, speed

        def in_pytorch() -> tuple[float, float]:
            command = [sys.executable, "-c", FIRST, str(file), texts[0]]
            first = timed(lambda: subprocess.run(command, check=True))
            tokens = 0

            def translate() -> None:
                nonlocal tokens
                for text in texts:
                    [[best, *_]] = translator.n_best([text], GREEDY)
                    tokens += len(best.pieces) + 1

            seconds = timed(translate)
            return first, tokens / seconds

        measured = [(in_browser(), in_pytorch()) for _ in range(runs)]
        browser.close()
    rows = []
    for at, what in enumerate(("seconds to the first translation", "greedy target tokens per second")):
        pairs = [(of_page[at], of_pytorch[at]) for of_page, of_pytorch in measured]
        values = {
            "page": [a for a, _ in pairs],
            "pytorch": [b for _, b in pairs],
            "page/pytorch": [a / b for a, b in pairs],
        }
        rows.append(
            {"what": what} | {name: [statistics.median(numbers), spread(numbers)] for name, numbers in values.items()}
        )
    table = Table(*rows[0], box=SIMPLE)
    for row in rows:
        what, *numbers = row.values()
        table.add_row(what, *(f"{median:,.2f} ± {half_range:.0%}" for median, half_range in numbers))
    Console().print(table)
    return rows
