"""Runs the code of a documentation page, to compare its output with the output that the page shows."""

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def play(page: str, section: str = "", **names: object) -> list[tuple[str, str, str]]:
    """Runs the Python code of docs/PAGE, or of one of its sections, in the current folder and in one session that
    begins with `names`; gives each block with its output and the output on the page."""
    played = []
    text = (DOCS / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    for code, shown in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"docs/{page}", "exec"), names)
        played.append((code, printed.getvalue().strip(), shown.strip()))
    return played
