"""Requests that no client should send, and the server's answers: every request gets one, and none does harm.

`python -m tests.tools.server.malformed 10000` sends this number of requests to a new server.
"""

import json
import random
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.tools.server.client import SECONDS, Serving
from tests.tools.server.models import BOTH, english_and_french, german_to_english

# The allowed answers: no status 5xx except "too long", and a connection may be closed without an answer.
RIGHT = {"200", "400", "403", "404", "405", "408", "413", "414", "429", "431", "closed"}
CLIENTS = 16
PATIENCE = 2.0  # seconds for an answer, before the sender ends its side
Draw = random.Random
TEXTS = [
    "ja",
    "",
    " ",
    "ein Haus",
    "<b>ja</b>",
    "<b",
    "&#x110000;",
    "\x00",
    "\u202e",
    "ß" * 300,
    "a\nb\r\nc",
    "🙂",
    "{}",
]
WORDS = ["de", "en", "fr", "auto", "", "xx", "../..", "de\x00", "DE", "html", "text", "π" * 50]
NAMES = ["q", "source", "target", "format", "alternatives", "api_key", "Q", "", "__class__"]


def value(draw: Draw, depth: int = 0) -> object:
    """Any JSON; half of the values are texts."""
    kinds: list[Callable[[], object]] = [
        lambda: draw.choice(TEXTS + WORDS),
        lambda: draw.choice([None, True, False, 0, -1, 3, 10**400, 1e308, float("nan"), "\ud800", "9" * 5000]),
        lambda: [value(draw, depth + 1) for _ in range(draw.randrange(4))],
        lambda: {draw.choice(NAMES): value(draw, depth + 1) for _ in range(draw.randrange(3))},
    ]
    return draw.choice([kinds[0], draw.choice(kinds if depth < 3 else kinds[:2])])()


def fields(draw: Draw) -> dict[str, object]:
    """The fields of a translation, some of them missing or wrong."""
    right: dict[str, object] = {"q": draw.choice(TEXTS), "source": "de", "target": "en", "format": "text"}
    for _ in range(draw.randrange(3)):
        right[draw.choice(NAMES)] = value(draw)
    if draw.random() < 0.2:
        right.pop(draw.choice(list(right)))
    return right


def json_body(draw: Draw) -> tuple[str, bytes]:
    body = json.dumps(fields(draw) if draw.random() < 0.8 else value(draw), ensure_ascii=draw.random() < 0.5)
    nonsense = ["[" * 50_000, '{"q":' * 20_000, '{"q":' + "1" * 9000 + "}", "nul", '{"q":"\\ud800"}', ""]
    encoding = draw.choice(["utf-8", "utf-8", "utf-16", "utf-32"])
    return "application/json", (draw.choice(nonsense) if draw.random() < 0.1 else body).encode(
        encoding, "surrogatepass"
    )


def form_body(draw: Draw) -> tuple[str, bytes]:
    pairs = [f"{key}={one}" for key, one in fields(draw).items()]
    nonsense = ["%", "%zz=%f", "=&=&=", "&" * 500, "q", "q=%ff&source=de&target=en", "a=b&" * 100]
    body = draw.choice(nonsense) if draw.random() < 0.2 else draw.choice("&;").join(pairs)
    return "application/x-www-form-urlencoded", body.encode("utf-8", "surrogatepass")


def multipart_body(draw: Draw) -> tuple[str, bytes]:
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{key}"{draw.choice(["", "; filename=a", "; name=q"])}\r\n'
        f"{draw.choice(['', 'Content-Type: text/plain; charset=nix', 'A:' + 'b' * 9000, 'no colon'])}\r\n\r\n{one}\r\n"
        for key, one in fields(draw).items()
    )
    boundary = draw.choice(["; boundary=x", "; boundary=x", "", "; boundary=", "; boundary=y", "; charset=\xff"])
    return f"multipart/form-data{boundary}", f"{parts}{draw.choice(['--x--', '', '--x'])}".encode(
        "utf-8", "surrogatepass"
    )


def damage(draw: Draw, message: bytes) -> bytes:
    """The message with some bytes changed, cut off or doubled."""
    damaged = bytearray(message)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(damaged) + 1)
        part = damaged[place : place + draw.randrange(20)]
        damaged[place : place + len(part)] = draw.choice([b"", bytes(part) * 2, draw.randbytes(len(part) + 1)])
    return bytes(damaged)


def request(draw: Draw) -> bytes:
    """One request as it goes over the wire."""
    kind, body = draw.choice([json_body, json_body, form_body, multipart_body])(draw)
    kind = kind if draw.random() < 0.9 else draw.choice(["text/plain", "", "application/json; charset=nix", "a" * 9000])
    method = draw.choice(["POST"] * 8 + ["GET", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW", "\xff"])
    paths = ["/translate"] * 9 + [
        "/detect",
        "/languages",
        "/health",
        "/page/de-en",
        "/../etc/passwd",
        "/%00",
        "//",
        "*",
    ]
    length = draw.choice([len(body)] * 8 + [0, len(body) + 9, -1, 10**12, "1e3", "٣"])
    headers = [
        f"Host: {draw.choice(['localhost', '', 'a' * 300])}",
        f"Content-Type: {kind}",
        f"Content-Length: {length}",
    ]
    if draw.random() < 0.1:
        headers[2] = "Transfer-Encoding: chunked"
        body = draw.choice([b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), b"zz\r\n" + body, b"ffffffffffff\r\n" + body])
    if draw.random() < 0.05:
        headers += [f"X-{place}: {'a' * 90}" for place in range(draw.choice([10, 2000]))]
    head = "\r\n".join([f"{method} {draw.choice(paths)} HTTP/1.1", *headers, "Connection: close", "", ""])
    message = head.encode("utf-8") + body
    return damage(draw, message) if draw.random() < 0.3 else message


def answer_of(server: Serving, message: bytes) -> str:
    """The status of the answer, or "closed". The answer may not contain anything from inside the program."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        answer = b""
        with suppress(OSError):  # closed before all had come
            connection.sendall(message)
        try:
            while block := connection.recv(1 << 16):
                answer += block
        except TimeoutError:
            # It waits for the rest of the request, which never comes; after the end of the sender's side it must close.
            connection.settimeout(SECONDS)
            with suppress(ConnectionError):
                connection.shutdown(socket.SHUT_WR)
                while block := connection.recv(1 << 16):
                    answer += block
        except ConnectionError:
            pass
    for inside in (b"Traceback", b'File "', b"transformer/", b"site-packages"):
        assert inside not in answer[:4096], (message, answer)
    return answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.1 ") else "closed"


def send(server: Serving, count: int, seed: int) -> Counter[str]:
    """The number of each answer to `count` malformed requests; fails at the first wrong answer."""
    draw, answers = Draw(seed), Counter[str]()
    messages = [request(draw) for _ in range(count)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = pool.map(lambda message: answer_of(server, message), messages)
        for number, (message, answer) in enumerate(zip(messages, found, strict=True)):
            assert answer in RIGHT, f"request {number} of seed {seed} was answered by {answer}: {message[:2000]!r}"
            answers[answer] += 1
    return answers


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        german_to_english().save(Path(folder, "de_en.safetensors"))
        english_and_french().save(Path(folder, "en_fr.safetensors"))
        server = Serving(*BOTH, "--max-characters", "2000", cwd=Path(folder))
        try:
            answers = send(server, count, seed=1)
            print(f"{count:,} requests, answered by {dict(answers.most_common())}")
            print("then a translation:", server.translate("ein Haus"))
            print("what its log says of them:", server.log().splitlines()[5:] or "nothing")
        finally:
            server.run.send_signal(15)
            print("its end:", server.run.wait().returncode)


if __name__ == "__main__":
    main(int(sys.argv[1]))
