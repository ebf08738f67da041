"""docs/tour.md and docs/library.md are run from top to bottom; what they print and draw is what they show.

`python -m tests.test_tour RUN` draws its pictures anew, those of a trained model from the run's folder RUN.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import torch

from tests.factories import model_dict, tokenizer_settings
from tests.pages import DOCS, play
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import train_tokenizer


def test_the_tour_prints_and_draws_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Untrained: only the last pictures need a model of ours, and any will do to see that the snippet works.
    lines = (DOCS.parent / "data" / "toy" / "train.de").read_text(encoding="utf-8").splitlines()[:300]
    settings = tokenizer_settings("bpe", 200)
    tokenizer = train_tokenizer(lines, settings)
    plain = model_dict(source_vocab_size=200, target_vocab_size=200)
    model = Transformer(from_dict(ModelConfig, plain, "model"))
    Translator(model, (tokenizer, tokenizer), ("de", "en")).save(tmp_path / "translator.safetensors")
    monkeypatch.chdir(tmp_path)
    for code, printed, shown in play("tour.md", RUN=str(tmp_path / "translator.safetensors")):
        assert printed == shown, code
    drawn = {f"images/{path.name}" for path in (tmp_path / "images").iterdir()}
    assert drawn <= set(re.findall(r"\]\(([^)]+)\)", (DOCS / "tour.md").read_text(encoding="utf-8")))
    for picture in drawn:
        assert (DOCS / picture).stat().st_size > 5_000, picture


def test_the_library_page_trains_a_model_and_decodes_with_a_cache() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # its tensors are small: more threads would wait for each other
    try:
        for code, printed, shown in play("library.md"):
            assert printed == shown, code
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_pages_name_only_files_that_are_there(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert link.startswith("http") or (DOCS / link).exists(), link


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_pages_name_only_tests_that_are_there(page: Path) -> None:
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8")):
        assert f"\ndef {name}(" in (DOCS.parent / file).read_text(encoding="utf-8"), f"{file}::{name}"


if __name__ == "__main__":
    run = str(Path(sys.argv[1]).absolute())
    os.chdir(DOCS)
    play("tour.md", RUN=run)
