"""Reads a request: its body within limits, its fields with checks, and its key.

Mistakes raise starlette's HTTPException with a line for the sender, with LibreTranslate's messages if it has some.
"""

import asyncio
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import Request

from transformer.data.languages import name_of
from transformer.tools.server.documents import Format
from transformer.tools.server.settings import ServerSettings

MAX_FIELDS = 20
MAX_SHOWN = 40


@dataclass(frozen=True)
class TranslationRequest:
    """Texts to translate; the answer to a batch has lists, even if it is only one text. `source` may be auto. Not in
    LibreTranslate: the translation of each line begins with `prefix`, and `confidence` adds the model's confidence."""

    texts: list[str]
    is_batch: bool
    source: str
    target: str
    format: Format
    alternatives: int
    prefix: str | None
    confidence: bool


def is_utf8(content_type: str) -> bool:
    """Whether a form is UTF-8, which is the default. Some of Python's other encodings, such as punycode, take quadratic
    time."""
    _, options = parse_options_header(content_type)
    return options.get(b"charset", b"utf-8").lower() in (b"utf-8", b"utf8")


async def read_fields(request: Request, settings: ServerSettings) -> dict[str, Any]:
    """The fields of a JSON object or of a form; if a form has a field several times, the first counts."""
    try:
        body = await asyncio.wait_for(request.body(), settings.timeout)
    except asyncio.TimeoutError:
        raise HTTPException(408, "Invalid request: it took too long to arrive") from None
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    fields: Any = None
    try:
        if kind == "application/json":
            fields = json.loads(body)
        elif kind == "multipart/form-data" and is_utf8(content_type):
            async with request.form(max_files=0, max_fields=MAX_FIELDS, max_part_size=settings.max_bytes) as form:
                fields = dict(reversed(form.multi_items()))
        elif kind == "application/x-www-form-urlencoded":
            pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
            fields = dict(reversed(pairs))
    except (ValueError, RecursionError):
        pass
    if not isinstance(fields, dict):
        what = "a JSON object or a form, with its content type and in UTF-8"
        raise HTTPException(400, f"Invalid request: the body must be {what}")
    return fields


def check_key(fields: Mapping[str, Any], key: bytes | None) -> None:
    given = fields.get("api_key")
    if key is None:
        return
    if not given:
        raise HTTPException(403, "Please contact the server operator to get an API key")
    if not hmac.compare_digest(str(given).encode(errors="replace"), key):
        raise HTTPException(403, "Invalid API key")


def read_texts(fields: Mapping[str, Any], max_characters: int) -> list[str]:
    """The text or texts of the field q."""
    given = fields.get("q")
    texts: list[Any] = given if isinstance(given, list) else [given]
    if given is None:
        raise HTTPException(400, "Invalid request: missing q parameter")
    if not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "Invalid request: q must be a text or a list of texts")
    size = sum(max(1, len(text)) for text in texts)  # an empty text counts too
    if size > max_characters:
        raise HTTPException(400, f"Invalid request: request ({size}) exceeds text limit ({max_characters})")
    for text in texts:
        if text.encode(errors="replace").decode() != text:
            raise HTTPException(400, "Invalid request: half of a surrogate pair stands alone in a text")
    return texts


def _read_word(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not value:
        raise HTTPException(400, f"Invalid request: missing {key} parameter")
    if not isinstance(value, str):
        raise HTTPException(400, f"Invalid request: {key} must be a text")
    return value


def excerpt(word: str) -> str:
    """The beginning of a word for an error, without characters that UTF-8 cannot encode."""
    return word[:MAX_SHOWN].encode(errors="replace").decode()


def _read_count(given: Any, limit: int) -> int:
    """A number of alternatives; in a form it is text."""
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:
        given = int(given)
    if given in (None, ""):
        return 0
    if type(given) is not int or given < 0:
        raise HTTPException(400, "Invalid request: alternatives must be a whole number from 0")
    if given > limit:
        raise HTTPException(400, f"Invalid request: alternatives exceed the limit ({limit})")
    return given


def _read_switch(given: Any, key: str) -> bool:
    """True or false; in a form it is text."""
    if given not in (None, "", True, False, "true", "false"):
        raise HTTPException(400, f"Invalid request: {key} must be true or false")
    return given in (True, "true")


def read_translation_request(
    fields: Mapping[str, Any], pairs: Collection[tuple[str, str]], max_characters: int, max_alternatives: int
) -> TranslationRequest:
    """All fields of a translation in one of the `pairs` of languages, or from any language (auto) to one of their
    targets."""
    texts = read_texts(fields, max_characters)
    source, target = (_read_word(fields, key) for key in ("source", "target"))
    languages = {language for pair in pairs for language in pair}
    for language in (target,) if source == "auto" else (source, target):
        if language not in languages:
            raise HTTPException(400, f"{excerpt(language)} is not supported")
    whence, to = (f"{name_of(language)} ({language})" for language in (source, target))
    if source == "auto" and target not in {to_language for _, to_language in pairs}:
        raise HTTPException(400, f"{to} is not available as a target language")
    if source not in ("auto", target) and (source, target) not in pairs:
        raise HTTPException(400, f"{to} is not available as a target language from {whence}")
    kind: Any = fields.get("format") or "text"
    if kind not in ("text", "html"):
        raise HTTPException(400, f"{excerpt(str(kind))} format is not supported")
    alternatives = _read_count(fields.get("alternatives"), max_alternatives)
    prefix: Any = fields.get("prefix") or None
    if prefix is not None and (not isinstance(prefix, str) or len(prefix) > max_characters or kind == "html"):
        raise HTTPException(400, f"Invalid request: prefix must be a text up to {max_characters}, not with format=html")
    confidence = _read_switch(fields.get("confidence"), "confidence")
    is_batch = isinstance(fields["q"], list)
    return TranslationRequest(texts, is_batch, source, target, kind, alternatives, prefix, confidence)
