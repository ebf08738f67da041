"""Text that is safe to print."""

import unicodedata

# Marks that reorder the text around them: embeddings, overrides and isolates of the bidirectional algorithm.
BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def terminal_safe(text: str) -> str:
    """Escapes what could steer a terminal or break a line: names, messages and translations may be a stranger's."""
    if text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode()
        if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in BIDI_CONTROLS
        else letter
        for letter in text
    )
