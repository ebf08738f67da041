"""docs/tour.md, docs/library.md and the code of README.md run from top to bottom, with the output and pictures that
they show.

The tour is executed as the notebook that is made from it. `RUN=FOLDER jupyter execute docs/tour.ipynb` draws its
pictures again; those of a trained model come from the run in FOLDER.
"""

import json
import re
import runpy
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest
import torch

from tests.factories import model_dict, tokenizer_settings
from tests.pages import DOCS, play
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import train_tokenizer

TOUR = (DOCS / "tour.md").read_text(encoding="utf-8")
NOT_DRAWN = ("images/ablations.png", "images/scores.png")  # of runs that take hours


def test_the_notebook_is_the_tour_of_today() -> None:
    made = runpy.run_path(str(DOCS / "notebook.py"))["notebook"](TOUR)
    stored = json.loads((DOCS / "tour.ipynb").read_text(encoding="utf-8"))
    assert json.loads(nbformat.writes(made)) == stored, "the tour has changed: python docs/notebook.py"


@pytest.mark.long
def test_the_tour_prints_and_draws_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Untrained: only the last pictures need one of our models, and any model shows that the code works.
    lines = (DOCS.parent / "data" / "toy" / "train.de").read_text(encoding="utf-8").splitlines()[:300]
    settings = tokenizer_settings("bpe", 200)
    tokenizer = train_tokenizer(lines, settings)
    plain = model_dict(source_vocab_size=200, target_vocab_size=200)
    model = Transformer(from_dict(ModelConfig, plain, "model"))
    Translator(model, (tokenizer, tokenizer), ("de", "en")).save(tmp_path / "translator.safetensors")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("RUN", str(tmp_path / "translator.safetensors"))
    (tmp_path / "images").mkdir()
    for picture in NOT_DRAWN:
        shutil.copy(DOCS / picture, tmp_path / picture)

    notebook = nbformat.read(DOCS / "tour.ipynb", as_version=4)
    shown = [printed(cell) for cell in notebook.cells]
    nbclient.execute(notebook, cwd=str(tmp_path), timeout=300, kernel_name="python3")
    assert [printed(cell) for cell in notebook.cells] == shown
    assert re.findall(r"```text\n(.*?)\n```", TOUR, re.DOTALL) == [text for text in shown if text]
    linked = set(re.findall(r"\]\((images/[^)]+)\)", TOUR))
    assert {f"images/{path.name}" for path in (tmp_path / "images").iterdir()} == linked
    for picture in linked:
        assert (DOCS / picture).stat().st_size > 5_000, picture


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.text for output in cell.get("outputs", []) if output.get("name") == "stdout").strip()


@pytest.mark.long
@pytest.mark.parametrize("page", ["../README.md", "library.md"])
def test_the_page_trains_a_model_and_decodes_with_it(page: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # its tensors are small: with more threads they would wait for each other
    try:
        for code, printed, shown in play(page):
            assert printed == shown, code
    finally:
        torch.set_num_threads(threads)
