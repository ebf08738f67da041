"""Writes docs/demo.html again, with the weights that are in it: `python docs/demo.py`.

Needed after any change of the page (transformer/tools/page/html). Other weights, from a run on the bundled corpus:
`python scripts/export.py page --checkpoint RUN --text "Am Dienstag lesen wir ein Buch." --output docs/demo.html`.
"""

from pathlib import Path

from transformer.files import atomic_write
from transformer.tools.page.export import with_current_program

if __name__ == "__main__":
    demo = Path(__file__).with_name("demo.html")
    atomic_write(demo, with_current_program(demo.read_text(encoding="utf-8")).encode())
