"""LibreTranslate's API (https://docs.libretranslate.com): its clients work with this server unchanged."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from transformer.data.directions import Direction
from transformer.data.languages import name_of
from transformer.inference.parts import Translation
from transformer.tools.server.batcher import Batcher, NBest, QueueFullError
from transformer.tools.server.detection import detect
from transformer.tools.server.documents import Piece, join, split
from transformer.tools.server.requests import (
    TranslationRequest,
    check_key,
    read_fields,
    read_texts,
    read_translation_request,
)
from transformer.tools.server.served import ServedDirection
from transformer.tools.server.settings import ServerSettings

CLIENT_HAS_GONE = 499  # nginx's status; no client reads it
# The model's confidence in a line of a document, as JSON.
Line = dict[str, Any]


def ranked_documents(asked: TranslationRequest, pieces: list[Piece], n_best: list[list[Translation]]) -> list[str]:
    """A document with the best hypothesis of each piece, then with the second best ones, and so on, without repeats."""
    documents: dict[str, None] = {}
    for rank in range(max([1, *map(len, n_best)])):
        texts = [hypotheses[min(rank, len(hypotheses) - 1)].text for hypotheses in n_best]
        documents[join(pieces, texts, asked.format)] = None
    return list(documents)[: 1 + asked.alternatives]


def confidence_of_lines(pieces: list[Piece], n_best: list[list[Translation]]) -> list[Line]:
    """The best translation, with its words, of each line or text between two tags."""
    sources = [piece.text for piece in pieces if piece.translated]
    return [
        {"source": source, "text": best.text, "confidence": best.confidence, "words": best.words_as_dicts}
        for source, (best, *_) in zip(sources, n_best, strict=True)
    ]


class Api:
    """The endpoints for some directions, with the batcher that translates."""

    def __init__(
        self,
        directions: Mapping[Direction, ServedDirection],
        batcher: Batcher,
        settings: ServerSettings,
        key: bytes | None,
    ) -> None:
        self.directions, self.batcher, self.settings, self.key = directions, batcher, settings, key
        self.languages = list(dict.fromkeys(language for pair in directions for language in pair))
        self.max_alternatives = batcher.search.beam - 1 if batcher.search.method == "beam" else 0

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def list_languages(self, request: Request) -> Response:
        targets = {one: [target for source, target in self.directions if source == one] for one in self.languages}
        return JSONResponse([{"code": one, "name": name_of(one), "targets": targets[one]} for one in self.languages])

    async def detect(self, request: Request) -> Response:
        fields = await read_fields(request, self.settings)
        check_key(fields, self.key)
        text = " ".join(read_texts(fields, self.settings.max_characters))
        found = await run_in_threadpool(detect, text, self.languages)
        return JSONResponse([{"confidence": confidence, "language": language} for language, confidence in found])

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request, self.settings)
        check_key(fields, self.key)
        asked = read_translation_request(fields, self.directions, self.settings.max_characters, self.max_alternatives)
        try:
            documents = await run_in_threadpool(lambda: [split(text, asked.format) for text in asked.texts])
        except ValueError as error:
            raise HTTPException(400, f"Invalid request: {error}") from error
        sources = [(asked.source, 100.0)] * len(documents)
        if asked.source == "auto":
            # Languages that can be translated into the target, and the target itself.
            possible = [*(source for source, target in self.directions if target == asked.target), asked.target]
            prose = [" ".join(piece.text for piece in pieces if piece.translated) for pieces in documents]
            sources = await run_in_threadpool(lambda: [detect(text, possible)[0] for text in prose])
        translated, confidences = [[text] for text in asked.texts], [list[Line]() for _ in asked.texts]
        for source in dict.fromkeys(source for source, _ in sources if source != asked.target):
            places = [place for place, (one, _) in enumerate(sources) if one == source]
            direction = self.directions[source, asked.target]
            found = await self._translate(request, asked, [documents[place] for place in places], direction)
            for place, (texts, lines) in zip(places, found, strict=True):
                translated[place], confidences[place] = texts, lines
        answer: dict[str, list[Any]] = {"translatedText": [texts[0] for texts in translated]}
        if asked.source == "auto":
            answer["detectedLanguage"] = [{"confidence": sure, "language": source} for source, sure in sources]
        if asked.alternatives:
            answer["alternatives"] = [texts[1:] for texts in translated]
        if asked.confidence:
            answer["confidence"] = confidences
        return JSONResponse(answer if asked.is_batch else {key: value for key, [value] in answer.items()})

    async def _translate(
        self, request: Request, asked: TranslationRequest, documents: list[list[Piece]], direction: ServedDirection
    ) -> list[tuple[list[str], list[Line]]]:
        """For each document: the best translation and alternatives that differ; and the model's confidence in each line
        of the best."""
        wanted = [piece.text for pieces in documents for piece in pieces if piece.translated]
        hypotheses = iter(await self._n_best(request, asked, direction, wanted) if wanted else [])
        found = [[next(hypotheses) for piece in pieces if piece.translated] for pieces in documents]
        return [
            (ranked_documents(asked, pieces, n_best), confidence_of_lines(pieces, n_best))
            for pieces, n_best in zip(documents, found, strict=True)
        ]

    async def _n_best(
        self, request: Request, asked: TranslationRequest, direction: ServedDirection, texts: list[str]
    ) -> NBest:
        """The batcher's results; HTTPException if they take too long or the client has gone."""
        try:
            direction.translator.prefix_ids(asked.prefix)
        except ValueError as error:
            raise HTTPException(400, f"Invalid request: {error}") from None
        try:
            job = self.batcher.submit(direction.translator, texts, asked.prefix, asked.confidence)
            found = asyncio.wrap_future(job)
        except QueueFullError:
            raise HTTPException(429, "Slowdown: too many requests are waiting", {"Retry-After": "1"}) from None
        gone: asyncio.Future[Any] = asyncio.ensure_future(
            request.receive()
        )  # the body has been read: the next message is the end
        try:
            either: set[asyncio.Future[Any]] = {found, gone}
            await asyncio.wait(either, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
            if found.done():
                return found.result()
            if gone.done():
                raise HTTPException(CLIENT_HAS_GONE, "The client has gone")
            raise HTTPException(503, "The translation took too long: try again, or less text", {"Retry-After": "1"})
        finally:
            found.cancel()  # the batcher drops cancelled requests
            gone.cancel()
