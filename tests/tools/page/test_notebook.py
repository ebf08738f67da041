"""`translator.show` in a notebook: the page of scripts/explain.py, shut into a frame of the cell's output."""

import html
import re
from pathlib import Path

from tests.tools.page.models import SEARCH, TEXTS
from transformer import Translator
from transformer.tools.page.explanation import explain, page


def test_the_output_of_a_cell_is_the_page_of_explain_in_a_frame(translator: Translator) -> None:
    output = translator.show(TEXTS[1], SEARCH, height=700)._repr_html_()
    assert output.startswith('<iframe sandbox="allow-scripts" width="100%" height="700" ')
    [content] = re.findall(r'srcdoc="([^"]*)"', output)
    assert html.unescape(content) == page(explain(translator, TEXTS[1], SEARCH))
    assert re.fullmatch(r"<iframe [^<>]*></iframe>", output), "a mark of the page reaches the notebook"


def test_what_load_returns_can_show_itself(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "translator.safetensors")
    loaded = Translator.load(tmp_path / "translator.safetensors")
    assert "ein Haus" in html.unescape(loaded.show(TEXTS[0], SEARCH)._repr_html_())
