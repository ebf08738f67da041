"""A translator in a notebook: `translator.show("…")` puts the page that explains a translation under the cell."""

import html

from transformer.inference import translator
from transformer.inference.settings import SearchSettings
from transformer.inference.translator import BEAM


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


class Translator(translator.Translator):
    """The translator of `transformer.inference` with a method for notebooks; `transformer.Translator` is this one."""

    warns_of_sentences = True

    def show(self, text: str, search: SearchSettings = BEAM, height: int = 900) -> Page:
        """The page of scripts/explain.py for `text`: all attention weights, and what each step could have chosen.

        `height` is in pixels. Raises ValueError for a text without tokens or with too many.
        """
        from transformer.tools.page.explanation import explain, page

        return Page(page(explain(self, text, search)), height)
