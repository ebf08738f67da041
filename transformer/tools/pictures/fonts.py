"""Finds fonts to draw text in any language: matplotlib's default has no Chinese, Japanese or Korean."""

import logging
import unicodedata
from functools import cache
from typing import NamedTuple

from matplotlib import font_manager, rcParams
from matplotlib.ft2font import FT2Font

log = logging.getLogger(__name__)
REMEDY = (
    "install a font that has them (Debian: apt-get install fonts-noto-cjk for Chinese, Japanese and Korean, "
    "fonts-noto-core for other scripts)"
)
MAX_NAMED = 10
# matplotlib warns if a family has no normal weight (WenQuanYi Zen Hei), which the user cannot change.
logging.getLogger(font_manager.__name__).addFilter(lambda record: "Failed to find font weight" not in str(record.msg))
# Characters that were already logged, so that they are not logged for every picture of a run.
_reported: set[str] = set()


class Font(NamedTuple):
    path: str
    family: str
    regular: bool
    characters: frozenset[str]


@cache
def _read(path: str) -> Font | None:
    """A font file's name and characters; None if matplotlib cannot use it (colored bitmaps)."""
    try:
        font = FT2Font(path)
        if not font.scalable:
            return None
        return Font(path, font.family_name, font.style_name == "Regular", frozenset(map(chr, font.get_charmap())))
    except (OSError, RuntimeError):
        return None


@cache
def _installed() -> list[Font]:
    """All fonts of this machine, by path.

    The fonts are searched, because matplotlib's own list is a cached file without fonts that were installed later.
    """
    fonts = (_read(path) for path in sorted(font_manager.findSystemFonts()))
    # Not fonts of last resort, which have only a box for every character.
    return [font for font in fonts if font and not font.family.replace(" ", "").startswith(("LastResort", "."))]


def _register(font: Font) -> None:
    if all(entry.name != font.family for entry in font_manager.fontManager.ttflist):
        font_manager.fontManager.addfont(font.path)


def families(text: str) -> list[str]:
    """The font families for drawing `text`: matplotlib's default, then others for missing characters.

    Characters that no installed font has are logged, once.
    """
    default = _read(font_manager.findfont(font_manager.FontProperties()))
    missing = {mark for mark in text if unicodedata.category(mark) not in ("Cc", "Cf", "Zs", "Zl", "Zp")}
    missing -= default.characters if default else set()
    chosen = []
    while missing:
        best = max(_installed(), key=lambda font: (len(missing & font.characters), font.regular), default=None)
        if best is None or not missing & best.characters:
            break
        _register(best)
        chosen.append(best.family)
        missing -= best.characters
    if unknown := missing - _reported:
        named = [f"{mark} (U+{ord(mark):04X})" for mark in sorted(unknown)]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        log.warning("no installed font can draw %s%s: %s", " ".join(named[:MAX_NAMED]), more, REMEDY)
        _reported.update(unknown)
    return [*rcParams["font.family"], *chosen]
