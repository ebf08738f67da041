"""The page that shows a translation, put together as one HTML file that needs nothing but a browser.

`page.html` is the frame, `style.css` its look, `texts/` every word of it, one table a language, `view/` the scripts
that draw, one subject each, and `runtime/` the translator itself in JavaScript, for pages with weights. All of it is
inlined; the browser runs and applies only what has the digests that stand in the page's security policy, and fetches
nothing.
"""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "zh")
TEXT = re.compile(r"runtime|weights|snapshot-\d+")
IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
# Inside a <script> these could end it, open a comment, or (the separators) break a line of old JavaScript.
ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def bundle(entry: str) -> str:
    """A JavaScript module and all that it imports as one script, each module before those that use it.

    All share one scope, so no two modules may define the same name. An import is one line, without renaming, and an
    export is the word `export` before a definition: nothing else of either is understood.
    """
    modules: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path in modules:
            return
        source = path.read_text(encoding="utf-8")
        modules[path] = ""  # a circle of imports ends here
        for imported in IMPORT.findall(source):
            add((path.parent / imported).resolve())
        del modules[path]
        modules[path] = re.sub(r"^export ", "", IMPORT.sub("", source), flags=re.MULTILINE)

    add((FOLDER / entry).resolve())
    return "\n".join(['"use strict";\n{', *modules.values(), "}"])


def to_json(value: Any) -> str:
    """JSON that may stand inside a <script>."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(ESCAPES)


def _digest(part: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"


def assemble(blocks: dict[str, str]) -> str:
    """The page as HTML. `blocks` are its data by the id of the element that holds it: JSON as `to_json` writes it, or
    of TEXT what is no JSON and does not contain `</script`.

    The page makes a worker of the block "runtime", if it has one.
    """
    style, script = _read("style.css"), bundle("view/main.js")
    texts = to_json({language: json.loads(_read(f"texts/{language}.json")) for language in LANGUAGES})
    parts = {
        "policy": f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}"
        + ("; worker-src blob:" if "runtime" in blocks else ""),
        "style": style,
        "texts": texts,
        "script": script,
        # The data last: it may contain anything.
        "blocks": "\n".join(
            f'<script type="{"text/plain" if TEXT.fullmatch(name) else "application/json"}" id="{name}">{data}</script>'
            for name, data in blocks.items()
        ),
    }
    html = _read("page.html")
    for name, part in parts.items():
        html = html.replace(f"{{{{{name}}}}}", part)
    return html
