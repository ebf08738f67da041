"""The web application: its addresses, and the limits, headers and errors of all requests."""

import asyncio
import html
import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer.tools.server.api import Api
from transformer.tools.server.served import ServedDirection

log = logging.getLogger(__name__)
DEFAULT_POLICY = "default-src 'none'; frame-ancestors 'none'"
LINGER = 0.5  # the rest of a refused body is not awaited after this number of seconds without a byte
BLOCK = 1 << 16  # bytes that are given to a connection at once: it keeps them in memory until its client reads them
HEADERS = {
    "Content-Security-Policy": DEFAULT_POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


# ---- pages


def plain_page(title: str, body: str) -> Response:
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
    return HTMLResponse(f"{head}<h1>{html.escape(title)}</h1>\n{body}\n</html>\n")


def page_of(direction: ServedDirection) -> Response:
    if direction.page is None:
        text = f"{direction.name} has no page here: {direction.why_no_page}. POST /translate translates."
        return plain_page(direction.languages, f"<p>{html.escape(text)}</p>")
    # The policy in the page, and the directive that is not allowed within a page.
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', direction.page[:4096])
    return HTMLResponse(direction.page, headers={"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"})


def links_to(directions: Mapping[str, ServedDirection]) -> Response:
    links = [
        f'<li><a href="/page/{quote(pair, safe="")}">{html.escape(direction.languages)}</a>: '
        f"{html.escape(direction.name)}</li>"
        for pair, direction in directions.items()
    ]
    return plain_page("Translators", f"<ul>{''.join(links)}</ul>")


async def show_index(index: Response, request: Request) -> Response:
    return index


async def show_page(pages: Mapping[str, Response], request: Request) -> Response:
    if request.path_params["pair"] not in pages:
        raise HTTPException(404, "Not Found")
    return pages[request.path_params["pair"]]


# ---- all requests


async def answer_error(request: Request, error: Exception) -> Response:
    """The error in LibreTranslate's format."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def send_in_blocks(send: Send, message: Message) -> None:
    body = message.get("body", b"")
    last = len(body) // BLOCK * BLOCK
    for start in range(0, last, BLOCK):
        await send({**message, "body": body[start : start + BLOCK], "more_body": True})
    await send({**message, "body": body[last:]} if body else message)


class Bounds:
    """Limits the body of a request, refuses other names of the server, sets the headers of each answer, and sends no
    traceback."""

    def __init__(self, app: ASGIApp, max_bytes: int, timeout: float, hosts: frozenset[str] | None) -> None:
        self.app, self.max_bytes, self.timeout, self.hosts = app, max_bytes, timeout, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size, has_begun, is_whole = 0, False, False

        async def receive_bounded() -> Message:
            nonlocal size, is_whole
            message = await receive()
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if size > self.max_bytes:
                raise HTTPException(413, f"Invalid request: its body exceeds {self.max_bytes} bytes")
            return message

        async def wait_for_the_rest() -> None:
            end = time.monotonic() + self.timeout
            with suppress(asyncio.TimeoutError):
                while (await asyncio.wait_for(receive(), LINGER)).get("more_body", False) and time.monotonic() < end:
                    pass

        async def send_safely(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                for key, value in HEADERS.items():
                    headers.setdefault(key, value)
            try:
                if not is_whole and message["type"] == "http.response.body" and not message.get("more_body", False):
                    # If a connection is closed while its client still sends, the client loses the answer.
                    await send_in_blocks(send, {**message, "more_body": True})
                    await wait_for_the_rest()
                    message = {**message, "body": b""}
                await send_in_blocks(send, message)
            except Exception as error:
                raise ClientDisconnect from error  # the client has gone

        try:
            host = re.sub(r":\d+$", "", Headers(scope=scope).get("host", "")).lower()
            if self.hosts is not None and host and host not in self.hosts:
                raise HTTPException(403, "Invalid request: this server does not answer to its Host (--allowed-host)")
            length = Headers(scope=scope).get("content-length", "")
            if length.isdecimal() and int(length[:20]) > self.max_bytes:
                raise HTTPException(413, f"Invalid request: its body exceeds {self.max_bytes} bytes")
            await self.app(scope, receive_bounded, send_safely)
        except ClientDisconnect:
            pass
        except HTTPException as error:
            await (await answer_error(Request(scope), error))(scope, receive, send_safely)
        except Exception as error:
            # Only its type, because the message may have text of the request.
            log.error("a request has failed: %s", type(error).__name__)
            if not has_begun:
                await JSONResponse({"error": "Internal server error"}, 500)(scope, receive, send_safely)


def make_app(api: Api) -> Starlette:
    directions = {f"{source}-{target}": direction for (source, target), direction in api.directions.items()}
    # Made once, because it contains a whole model and slow clients must not each have a copy.
    pages = {pair: page_of(direction) for pair, direction in directions.items()}
    index = next(iter(pages.values())) if len(pages) == 1 else links_to(directions)
    routes = [
        Route("/", partial(show_index, index)),
        Route("/page/{pair:path}", partial(show_page, pages)),
        Route("/translate", api.translate, methods=["POST"]),
        Route("/detect", api.detect, methods=["POST"]),
        Route("/languages", api.list_languages),
        Route("/health", api.health),
    ]
    bounds = Middleware(
        Bounds, max_bytes=api.settings.max_bytes, timeout=api.settings.timeout, hosts=api.settings.hosts
    )
    return Starlette(routes=routes, middleware=[bounds], exception_handlers={HTTPException: answer_error})
