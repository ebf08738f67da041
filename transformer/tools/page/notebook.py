"""A translator in a notebook: `translator.show("…")` puts the page that explains a translation under the cell."""

import html

from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM, Translator
from transformer.tools.page.explanation import explain, page


class Page:
    """An HTML page as the output of a notebook's cell."""

    def __init__(self, content: str, height: int) -> None:
        self.content, self.height = content, height

    def _repr_html_(self) -> str:
        # In a frame of its own: the page's style and scripts reach nothing of the notebook, nor the other way.
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{self.height}" frameborder="0" '
            f'srcdoc="{html.escape(self.content)}"></iframe>'
        )


def show(translator: Translator, text: str, search: SearchSettings = BEAM, height: int = 900) -> Page:
    """`Translator.show`."""
    return Page(page(explain(translator, text, search)), height)
