"""Writes docs/tour.ipynb, the notebook of docs/tour.md: `python docs/notebook.py`.

jupytext splits the page into cells. Printed text becomes the output of its cell, and a picture becomes a cell that
shows it, because Colab does not show picture files of a notebook.
"""

import json
import re
from pathlib import Path

import jupytext
from nbformat import NotebookNode, v4, writes

from transformer.files import atomic_write

PICTURE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")
SETUP = """\
# Colab has no copy of the project: this cell fetches and installs one. Elsewhere it does nothing.
REPOSITORY = ""  # in Colab: the address of the project, or of your copy of it, as `git clone` takes it

import importlib.util
import sys

if importlib.util.find_spec("transformer") is None:
    if not REPOSITORY:
        raise ValueError("Write the address of the project into REPOSITORY, and run this cell again.")
    !git clone --quiet --depth 1 {REPOSITORY} /content/project
    %pip install --quiet -e /content/project
    sys.path.append("/content/project")
    %cd /content/project/docs

from IPython.display import Image"""


def _with_pictures_shown(paragraph: str) -> str:
    alt_and_path = [[json.dumps(part, ensure_ascii=False) for part in found] for found in PICTURE.findall(paragraph)]
    shown = [f"display(Image({path}, alt={alt}))" for alt, path in alt_and_path]
    return "\n".join(["```python", *shown, "```"]) if shown else paragraph


def notebook(page: str) -> NotebookNode:
    """The notebook of a page in Markdown."""
    paragraphs = [_with_pictures_shown(paragraph) for paragraph in page.split("\n\n")]
    cells = [v4.new_code_cell(SETUP)]
    for cell in jupytext.reads("\n\n".join(paragraphs), fmt="md").cells:
        source = cell.source
        if printed := re.match(r"```text\n(.*?)```\s*", source, re.DOTALL):
            cells[-1].outputs = [v4.new_output("stream", name="stdout", text=printed[1])]
            source = source[printed.end() :]
        if source.startswith("%%bash\n"):  # a command that is only shown, because it takes hours
            source = source.replace("%%bash", "```bash") + "\n```"
            cells.append(v4.new_markdown_cell(source))
        elif source:
            new_cell = v4.new_code_cell if cell.cell_type == "code" else v4.new_markdown_cell
            cells.append(new_cell(source.strip()))
    for index, cell in enumerate(cells):
        cell.id = f"cell-{index}"  # by default the id is random
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


if __name__ == "__main__":
    tour = Path(__file__).with_name("tour.md")
    atomic_write(tour.with_suffix(".ipynb"), f"{writes(notebook(tour.read_text(encoding='utf-8')))}\n".encode())
